// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"hash/maphash"
	"sync"

	"github.com/sluicegate/sluice"
)

// id stands for a key under a plan: 128 bits under a secret of this process, so
// that no two meet.
type id struct{ a, b uint64 }

// entry is one key, under the lock of its shard.
type entry struct {
	hold
	terms  *terms
	key    string        // set while there is something to give back
	flying chan struct{} // closed when the flight that leases units is back; nil: none is out
	err    error         // what the last flight failed with, if that says something of the store
}

type shard struct {
	mu      sync.Mutex
	entries map[id]*entry
	most    int
	stats   Stats
}

const shards = 64

// table is the keys in demand.
type table struct {
	seeds  [2]maphash.Seed
	shards [shards]shard
}

func (t *table) init(keys int) {
	t.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].entries = make(map[id]*entry)
		t.shards[i].most = max(keys/shards, 1)
	}
}

func (t *table) find(terms *terms, key string) (id, *shard) {
	type planKey struct {
		plan uint64
		key  string
	}
	k := planKey{terms.plan.ID(), key}
	n := id{maphash.Comparable(t.seeds[0], k), maphash.Comparable(t.seeds[1], k)}
	return n, &t.shards[n.a%shards]
}

// tries is how many entries are looked at to make room for another.
const tries = 8

// entry returns the entry of a key, or nil if there is no room for one more.
func (sh *shard) entry(n id, t *terms, at moment) *entry {
	if e := sh.entries[n]; e != nil {
		return e
	}
	if len(sh.entries) >= sh.most {
		left := tries
		for other, e := range sh.entries { // from anywhere
			if e.flying == nil && e.idle(e.terms, at) {
				delete(sh.entries, other)
			}
			if left--; left == 0 {
				break
			}
		}
		if len(sh.entries) >= sh.most {
			sh.stats.Untracked++
			return nil
		}
	}
	e := &entry{terms: t}
	sh.entries[n] = e
	return e
}

// settled moves what the entry has lost into the shard's figures.
func (sh *shard) settled(e *entry) {
	sh.stats.Lost += uint64(e.lost)
	e.lost = 0
	if len(e.parcels) == 0 && len(e.spare) == 0 {
		e.key = ""
	}
}

// spares takes what is to be given back of e.
func (e *entry) spares() []sluice.Request {
	if len(e.spare) == 0 {
		return nil
	}
	reqs := make([]sluice.Request, len(e.spare))
	for i := range e.spare {
		p := &e.spare[i]
		reqs[i] = sluice.Request{
			Op:     sluice.OpRefund,
			Charge: sluice.Charge{Plan: e.terms.plan, Key: e.key, Cost: p.left},
			At:     p.grant.At,
		}
	}
	e.spare = e.spare[:0]
	e.unsound()
	return reqs
}

// Stats is what a [Store] has done.
type Stats struct {
	// Allowed and Denied are the takes that were decided here, Asked the
	// questions to the store about takes that could be leased.
	Allowed, Denied, Asked uint64
	// Leased is how many units were taken in advance, Returned how many of
	// them were sent back unused, and Lost how many were neither used nor sent
	// back: their limit had come to an edge, or they could not be sent.
	Leased, Returned, Lost uint64
	// Untracked is how many takes found no room for their key and were asked
	// as they are.
	Untracked uint64
}

// Stats returns what the Store has done. It locks one part of it after the
// other, each for an instant.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		sum.Allowed += sh.stats.Allowed
		sum.Denied += sh.stats.Denied
		sum.Asked += sh.stats.Asked
		sum.Leased += sh.stats.Leased
		sum.Returned += sh.stats.Returned
		sum.Lost += sh.stats.Lost
		sum.Untracked += sh.stats.Untracked
		sh.mu.Unlock()
	}
	return sum
}
