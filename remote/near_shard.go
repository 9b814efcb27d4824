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
	most    int      // maximum number of entries that remember something
	kept    int      // number of such entries
	idle    []*entry // for later
	denials denialStats
	leases  LeaseStats
}

// mostIdle is how many entries a shard keeps for later.
const mostIdle = 64

// entry returns the entry of a key, a new one if there was none. The caller must settle
// it.
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

// settle counts the units that e has lost. It removes e if e remembers nothing and has no
// call under way.
func (sh *shard) settle(e *entry) {
	for l := e.leases; l != nil; l = l.next {
		sh.leases.Lost += uint64(l.lost)
		l.lost = 0
		if len(l.grants) == 0 && len(l.refunds) == 0 {
			l.key = ""
		}
	}
	if keeps := e.leases != nil || e.denied.known(); keeps != e.remembers {
		e.remembers = keeps
		if sh.kept--; keeps {
			sh.kept += 2
		}
	}
	if e.remembers || e.calls > 0 {
		return
	}
	delete(sh.entries, e.key)
	if *e = (entry{}); len(sh.idle) < mostIdle {
		sh.idle = append(sh.idle, e)
	}
}

// lease returns e's lease under pi's limits, or nil if there is no room for one more.
func (sh *shard) lease(e *entry, pi *planInfo, at moment) *lease {
	if l := e.leaseOf(pi); l != nil || !sh.makeRoom(e, at) {
		return l
	}
	for l := e.leases; l != nil && e.calls == 0; l = l.next {
		if l.idle(at) { // of a plan that is no longer used
			l.dropUnits()
			*l = lease{next: l.next, info: pi, lost: l.lost}
			return l
		}
	}
	e.leases = &lease{info: pi, next: e.leases}
	return e.leases
}

// remember keeps a denial, unless a longer one is known or there is no room.
func (sh *shard) remember(e *entry, pi *planInfo, learnt *denial, at moment) {
	if known := e.denialUnder(pi); learnt.known() && !known.outlasts(learnt) && sh.makeRoom(e, at) {
		*known = *learnt
		sh.denials.Remembered++
	}
}

// tries is how many entries makeRoom compares.
const tries = 8

// makeRoom reports whether e may remember something. If the shard is full, it evicts
// another entry: one that has ended, else the one whose denial ends soonest, else one with
// refunds to send. Entries with units in hand, and keys in demand, stay.
func (sh *shard) makeRoom(e *entry, at moment) bool {
	if e.remembers || sh.kept < sh.most {
		return true
	}
	var first *entry
	least, left := int64(math.MaxInt64), tries
	for _, other := range sh.entries { // in random order
		if other.remembers {
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
	if at.mono < least && least < refundsWorth {
		sh.denials.Evicted++
	}
	first.dropUnits()
	sh.settle(first)
	first.denied, first.leases = denial{}, nil
	sh.settle(first)
	return true
}

// refundsWorth is the worth of an entry that has refunds to send.
const refundsWorth = math.MaxInt64 - 1

// worth orders entries for eviction: the least worth goes first, math.MaxInt64 never.
func (e *entry) worth(at moment) int64 {
	ends := e.denied.until
	for l := e.leases; l != nil; l = l.next {
		switch ends = max(ends, l.denied.until); {
		case e.calls > 0 || !l.idle(at): // a call under way returns to it
			return math.MaxInt64
		case len(l.refunds) > 0:
			ends = refundsWorth
		}
	}
	return ends
}
