// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// secret keys the hash that stands for a key in memory. Who does not know it
// cannot make two keys meet. It is kept in snapshots, as every state is found
// by it.
type secret [4]uint64

func newSecret() secret {
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	var s secret
	for i := range s {
		// Odd, so that no factor of a product below can vanish for all keys.
		s[i] = binary.LittleEndian.Uint64(raw[8*i:]) | 1
	}
	return s
}

// mum folds the 128-bit product of a and b.
func mum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// le32 and le64 read little-endian words; the compiler makes one load of each.
func le32(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// sum hashes a key within a domain, such as a scope. It multiplies as wyhash
// and rapidhash do (Wang Yi, 2019), under a secret of its own.
func (s *secret) sum(domain uint64, key string) uint64 {
	n := len(key)
	seed := mum(domain^s[0], s[1])
	var a, b uint64
	switch {
	case n > 16:
		p := key
		for len(p) > 16 {
			seed = mum(le64(p)^s[2], le64(p[8:])^seed)
			p = p[16:]
		}
		a, b = le64(key[n-16:]), le64(key[n-8:])
	case n >= 8:
		a, b = le64(key), le64(key[n-8:])
	case n >= 4:
		a, b = le32(key), le32(key[n-4:])
	case n > 0:
		a = uint64(key[0])<<16 | uint64(key[n>>1])<<8 | uint64(key[n-1])
	}
	hi, lo := bits.Mul64(a^s[2], b^seed)
	return mum(lo^s[3]^uint64(n), hi^s[1])
}

// shardBits are the upper bits of a hash that choose a shard. They are the
// same for all limits of a key, so that its states share a shard and a lock.
const shardBits = 16

// termMask returns what tells a limit's states from those of others, for
// [identity].
func termMask(id uint64) uint64 { return id << shardBits >> shardBits }

// identity returns what a state is found by: the hash of its key, mixed with
// its limit's mask. For one limit it is a bijection of the hash. It is never 0,
// which marks an empty slot.
func identity(hash, mask uint64) uint64 {
	if id := hash ^ mask; id != 0 {
		return id
	}
	return 1
}
