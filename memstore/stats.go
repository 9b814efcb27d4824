// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math"
	"time"
)

// Stats are the figures of a [Store].
type Stats struct {
	// States is the number of states: one for each key under each limit, idle
	// states included until a new key takes their room.
	States int
	// Bytes is the memory of the states, room for growth included.
	Bytes int64
	// Evicted is the number of states that were dropped before they were idle,
	// because more than MaxKeys were alive.
	Evicted uint64
	// EvictedDebt is the debt of the evicted states: the sum of the times after
	// which each would have been idle.
	EvictedDebt time.Duration
	// Holds is the number of holds, at most MaxKeys/8, including ended ones whose ids are
	// kept. Each takes about 200 bytes, which are not in Bytes. HoldsDropped is the number of
	// holds that were forgotten early: with an evicted state, or above 1,024 of a key.
	Holds, HoldsDropped int64
}

// Stats returns the figures of the Store. It locks one shard after the other, each
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
	st.Holds, st.HoldsDropped = s.registry.held.count.Load(), s.registry.held.dropped.Load()
	st.EvictedDebt = time.Duration(evictedDebt) * time.Microsecond
	return st
}

// bytes returns the memory of the states of a shard.
func (sh *shard) bytes() int64 {
	words := sh.slab.total + 2*sh.words.slots()
	for f := range sh.tables {
		words += len(sh.tables[f].slots)
	}
	return int64(words) * 8
}
