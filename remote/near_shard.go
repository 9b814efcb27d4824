// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"sync"
)

// shard is a part of the keys under one lock.
type shard struct {
	mu      sync.Mutex
	entries map[uint64]*entry
	most    int      // entries that may remember something
	kept    int      // how many do
	idle    []*entry // for later
	denials DenialStats
	leases  LeaseStats
}

// mostIdle is how many entries a shard keeps for later.
const mostIdle = 64

// entry returns the entry of a key, which is new if there was none. It must be
// settled.
func (sh *shard) entry(key uint64) *entry {
	e := sh.entries[key]
	if e != nil {
		return e
	}
	if last := len(sh.idle) - 1; last >= 0 {
		e, sh.idle = sh.idle[last], sh.idle[:last]
	} else {
		e = new(entry)
	}
	e.key = key
	sh.entries[key] = e
	return e
}

// settle counts what e has lost and whether it remembers something, and lets it
// go if it does not.
func (sh *shard) settle(e *entry) {
	for h := e.holds; h != nil; h = h.next {
		sh.leases.Lost += uint64(h.lost)
		h.lost = 0
		if len(h.grants) == 0 && len(h.spare) == 0 {
			h.key = ""
		}
	}
	if keeps := e.holds != nil || e.denied.known(); keeps != e.keeps {
		e.keeps = keeps
		if sh.kept--; keeps {
			sh.kept += 2
		}
	}
	if e.keeps || e.calls > 0 {
		return
	}
	delete(sh.entries, e.key)
	if *e = (entry{}); len(sh.idle) < mostIdle {
		sh.idle = append(sh.idle, e)
	}
}

// hold returns the hold of e under f's limits, or nil if there is no room for one
// more.
func (sh *shard) hold(e *entry, f *facts, at moment) *hold {
	if h := e.of(f); h != nil || !sh.room(e, at) {
		return h
	}
	for h := e.holds; h != nil && e.calls == 0; h = h.next {
		if h.quiet(at) { // of limits that were in use before
			h.drop()
			*h = hold{next: h.next, facts: f, lost: h.lost}
			return h
		}
	}
	e.holds = &hold{facts: f, next: e.holds}
	return e.holds
}

// remember keeps what was denied, unless more is known of the key or there is no
// room.
func (sh *shard) remember(e *entry, f *facts, learnt *denial, at moment) {
	if known := e.memory(f); learnt.known() && !known.outlasts(learnt) && sh.room(e, at) {
		*known = *learnt
		sh.denials.Remembered++
	}
}

// tries is how many entries are looked at to make room for another.
const tries = 8

// room reports whether e may remember something, and makes room for that: what
// has ended goes first, then the denial that ends soonest, and at last units that
// are still to be given back. Units in hand stay, and keys in demand.
func (sh *shard) room(e *entry, at moment) bool {
	if e.keeps || sh.kept < sh.most {
		return true
	}
	var first *entry
	least, left := int64(math.MaxInt64), tries
	for _, other := range sh.entries { // from anywhere
		if other.keeps {
			if worth := other.worth(at); worth < least {
				first, least = other, worth
			}
			if left--; left == 0 {
				break
			}
		}
	}
	if first == nil {
		return false
	}
	if at.mono < least && least < spares {
		sh.denials.Evicted++
	}
	first.drop()
	sh.settle(first)
	first.denied, first.holds = denial{}, nil
	sh.settle(first)
	return true
}

// spares is the worth of an entry that has units to give back.
const spares = math.MaxInt64 - 1

// worth returns in which order entries make room for others: those whose worth
// is least first, and none of the most.
func (e *entry) worth(at moment) int64 {
	ends := e.denied.until
	for h := e.holds; h != nil; h = h.next {
		switch ends = max(ends, h.denied.until); {
		case e.calls > 0 || !h.quiet(at): // a call in flight comes back to it
			return math.MaxInt64
		case len(h.spare) > 0:
			ends = spares
		}
	}
	return ends
}
