// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math"
	"time"
)

// Stats is what a [Store] holds and what it has had to forget.
type Stats struct {
	// States is how many slots are in use: one for each key under each limit.
	// Some may be idle and wait for a new key to take
	// their room.
	States int
	// Bytes is what these take in memory, room for growth included.
	Bytes int64
	// Evicted is how many states were dropped before they were idle,
	// because more than MaxKeys were alive.
	Evicted uint64
	// EvictedDebt is the debt that went with them, measured in the time after
	// which each would have been idle, in all.
	EvictedDebt time.Duration
}

// Stats returns what the Store holds. It locks one shard after the other, each
// for an instant.
func (s *Store) Stats() Stats {
	var st Stats
	var evictedDebt uint64
	for part := 0; part < len(s.shards); {
		part = s.visit(part, func(sh *shard) {
			st.States += sh.used()
			st.Bytes += sh.bytes()
			st.Evicted += sh.evicted
			evictedDebt = min(evictedDebt+sh.evictedDebt, math.MaxInt64/1000) // neither sum nor product can overflow
		})
	}
	st.EvictedDebt = time.Duration(evictedDebt) * time.Microsecond
	return st
}

// bytes returns what the states of a shard take.
func (sh *shard) bytes() int64 {
	words := sh.slab.total + 2*sh.words.slots()
	for f := range sh.tables {
		words += len(sh.tables[f].slots)
	}
	return int64(words) * 8
}
