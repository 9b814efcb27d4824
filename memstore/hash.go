// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

// shardBits are the upper bits of a hash that choose a shard. They are the
// same for all limits of a key, so that its states share a shard and a lock.
const shardBits = 16

// termMask returns the part of a hash that distinguishes a limit's states from others, for
// [identity].
func termMask(id uint64) uint64 { return id << shardBits >> shardBits }

// identity returns the identity of a state: the hash of its key, mixed with its
// limit's mask. For one limit it is a bijection of the hash, but for 0, which marks an
// empty slot and is never returned.
func identity(hash, mask uint64) uint64 {
	if id := hash ^ mask; id != 0 {
		return id
	}
	return 1
}
