// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// The holds of a key under a limit are in a map of its shard, by the identity of the slot of
// rank 0. A state with open holds is in a slot with the flag more, as if the key had another
// form: takes that look at one state alone leave it to [Store.locked]. So takes of other keys
// do nothing for holds. Holds stay when their state is idle, and go with a state that is evicted.

// heldPart is the part of MaxKeys that is the maximum number of holds of a Store.
const heldPart = 8

// held counts the holds of a Store.
type held struct {
	most           int64
	count, dropped atomic.Int64
}

// withHolds reports whether a decision of req at an item needs its holds, and sets them.
func (l *location) withHolds(req *sluice.Request, it *algo.Item, now int64) (is bool) {
	it.Holds = nil
	sh := l.shard
	if len(sh.holds) == 0 && req.Hold == nil {
		return false
	}
	if it.Holds = sh.holds[l.rank(0)]; it.Holds == nil && req.Hold != nil {
		it.Holds = &algo.Holds{All: true}
	}
	if h := it.Holds; h != nil {
		if held := &sh.registry.held; req.Hold != nil {
			sh.forgetHolds(now, held.count.Load() >= held.most)
			h.Full = held.count.Load() >= held.most
		}
		h.Lost, l.holds = !l.beside, len(h.List)
	}
	return it.Holds != nil
}

// keepHolds keeps the holds of an item after a decision.
func (l *location) keepHolds(it *algo.Item) {
	h, held := it.Holds, &l.shard.registry.held
	if it.Holds = nil; h == nil {
		return
	}
	l.held = h.Open > 0
	if !h.Written {
		return
	}
	held.count.Add(int64(len(h.List) - l.holds))
	held.dropped.Add(int64(h.Dropped))
	h.Written, h.Changed, h.Dropped = false, h.Changed[:0], 0
	if len(h.List) == 0 {
		delete(l.shard.holds, l.rank(0))
		return
	}
	if l.shard.holds == nil {
		l.shard.holds = make(map[uint64]*algo.Holds)
	}
	l.shard.holds[l.rank(0)] = h
}

// forgetHolds forgets holds that are no longer needed: all of the shard or, of two keys, as
// many as a request may add.
func (sh *shard) forgetHolds(now int64, all bool) {
	left := 2
	for id, h := range sh.holds {
		if h.Needed() <= now {
			sh.dropHolds(id)
		}
		if left--; left == 0 && !all {
			return
		}
	}
}

// dropHolds drops the holds of a state.
func (sh *shard) dropHolds(id uint64) {
	if h := sh.holds[id]; h != nil {
		sh.registry.held.count.Add(-int64(len(h.List)))
		delete(sh.holds, id)
	}
}

// drop drops a state in a slot to make room. A state that lives takes its holds along.
func (sh *shard) drop(t *table, i int, now int64) {
	if h := sh.holds[t.id(i)]; h != nil && t.idle(i) > now {
		sh.registry.held.dropped.Add(h.Open)
		sh.dropHolds(t.id(i))
	}
	sh.remove(t, i)
}

// holds moves the holds of the second half.
func (h *halves) holds() {
	from, to := h.shards[0], h.shards[1]
	for id, list := range from.holds {
		if h.of(id) == 1 {
			if to.holds == nil {
				to.holds = make(map[uint64]*algo.Holds)
			}
			to.holds[id] = list
			delete(from.holds, id)
		}
	}
}
