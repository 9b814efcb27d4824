// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache

import (
	"sync"

	"github.com/sluicegate/sluice"
)

// ways is how many slots a denial may be in.
const ways = 8

// stripe is a part of the keys under one lock.
type stripe struct {
	mu      sync.Mutex
	size    int // slots, a power of two
	slots   []denial
	flights map[uint64]flight
	seq     uint64
	stats   Stats
}

// flight is what is on its way to the store about one key.
type flight struct {
	calls   int
	unsound int    // how many of them could make a denial wrong
	clean   uint64 // what was sent up to here may have been decided before one of those
	plan    uint64 // the limits of the last

	scout uint64        // which of them was the first after a denial had ended, 0 if none
	back  chan struct{} // closed when the scout is back, nil if nobody waits for it
}

func (st *stripe) init(size int) {
	st.size = size
	st.flights = make(map[uint64]flight)
}

// answer is enter for a plain take, unless its denial is known. If the denial
// that was known has just ended, and another take asks the store what is now, it
// returns what to wait for before it is tried again; only who does not wait is
// entered.
func (st *stripe) answer(c *call, d *sluice.Decision, waits bool) (known bool, wait <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	e := st.find(c.first.key)
	told := e != nil && e.plan == c.first.plan && c.cost >= e.cost
	if told && e.answer(c.rule, c.cost, c.sent, d) {
		st.stats.Answered++
		return true, nil
	}
	ended := told && c.sent >= e.until
	if f := st.flights[c.first.key]; ended && waits && f.scout != 0 {
		if f.back == nil {
			f.back = make(chan struct{})
			st.flights[c.first.key] = f
		}
		return false, f.back
	}
	st.entered(&c.first)
	if f := st.flights[c.first.key]; ended && f.scout == 0 {
		f.scout = c.first.seq
		st.flights[c.first.key] = f
	}
	return false, nil
}

// enter notes that l is sent.
func (st *stripe) enter(l *leg) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.entered(l)
}

func (st *stripe) entered(l *leg) {
	st.stats.Asked++
	st.seq++
	l.seq = st.seq
	f, busy := st.flights[l.key]
	e := st.find(l.key)
	// A take under other limits carries the key's state over to them, and what
	// comes back later may be worth less.
	l.unsound = l.unsound || busy && f.plan != l.plan || e != nil && e.plan != l.plan
	f.calls++
	f.plan = l.plan
	if l.unsound {
		f.unsound++
		st.forget(l.key)
	}
	st.flights[l.key] = f
}

// leave notes that l is back, and whether it may have changed the key's state.
// It remembers what has been learnt, if that is safe.
func (st *stripe) leave(l *leg, changed bool, learnt *denial) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f := st.left(l)
	if changed {
		// It would still be denied, but for longer than is remembered.
		st.forget(l.key)
	}
	if learnt.known() && f.unsound == 0 && l.seq > f.clean {
		st.remember(learnt)
	}
}

func (st *stripe) forget(key uint64) {
	if e := st.find(key); e != nil {
		*e = denial{}
	}
}

// left returns the flight of a leg that is back, without it.
func (st *stripe) left(l *leg) flight {
	f := st.flights[l.key]
	f.calls--
	if l.unsound {
		f.unsound--
		f.clean = st.seq // whatever is under way was sent before now
	}
	if f.scout == l.seq {
		if f.back != nil {
			close(f.back) // who waits finds what is learnt: the stripe is locked until then
		}
		f.scout, f.back = 0, nil
	}
	if f.calls > 0 {
		st.flights[l.key] = f
	} else {
		delete(st.flights, l.key)
	}
	return f
}

// find returns the denial of a key, nil if there is none.
func (st *stripe) find(key uint64) *denial {
	group := st.group(key)
	for i := range group {
		if e := &group[i]; e.key == key && e.known() {
			return e
		}
	}
	return nil
}

// group returns the slots in which a key may be.
func (st *stripe) group(key uint64) []denial {
	if st.slots == nil {
		return nil
	}
	first := int(key&uint64(st.size-1)) &^ (ways - 1)
	return st.slots[first : first+ways]
}

// remember keeps e, unless more is known of its key: a smaller cost, or a later
// instant at which it fits.
func (st *stripe) remember(e *denial) {
	if st.slots == nil {
		st.slots = make([]denial, st.size)
	}
	if old := st.find(e.key); old != nil {
		if e.heard < old.until && (old.cost < e.cost || old.cost == e.cost && old.free() > e.free()) {
			return
		}
		*old = *e
		st.stats.Remembered++
		return
	}
	group := st.group(e.key)
	soonest := &group[0]
	for i := range group {
		if group[i].until < soonest.until {
			soonest = &group[i]
		}
	}
	if e.heard < soonest.until {
		st.stats.Evicted++
	}
	*soonest = *e
	st.stats.Remembered++
}
