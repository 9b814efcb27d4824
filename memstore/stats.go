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
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.States += sh.used()
		if a := sh.words.array.Load(); a != nil {
			st.Bytes += int64(cap(a.slots)) * 16
		}
		for f := range sh.tables {
			st.Bytes += int64(cap(sh.tables[f].slots)) * 8
		}
		st.Bytes += int64(sh.slab.total) * 8
		st.Evicted += sh.evicted
		evictedDebt = min(evictedDebt+sh.evictedDebt, math.MaxInt64/1000) // neither sum nor product can overflow
		sh.mu.Unlock()
	}
	st.EvictedDebt = time.Duration(evictedDebt) * time.Microsecond
	return st
}
