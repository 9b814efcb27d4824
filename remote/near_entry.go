// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"github.com/sluicegate/sluice"
)

// entry is all that is known of one key of a scope: until when it is denied,
// which units of it are in hand, and what is on its way to the store about it.
// It is under the lock of its shard.
type entry struct {
	key     uint64    // a hash of scope and key
	denied  denial    // under limits that are not leased
	holds   *hold     // under each plan that is leased
	plans   [2]*facts // of what is on its way or denied: they change no limit of each other
	waiting *landing  // nil if nobody waits
	epoch   uint32    // counts what could have made a denial wrong
	change  uint32    // counts how often other limits came into use
	drops   uint32    // counts how often the units in hand were lost, as by a reset
	calls   int32     // requests on their way
	unsound int32     // how many of them could make a denial wrong, as all sent before a change
	flying  bool      // others wait for what one of them learns
	keeps   bool      // it is counted among those that remember something
}

// landing is what callers wait for that take another call's answer.
type landing struct {
	back chan struct{}
	err  error // before back is closed: what they are reported, if it is not the answer
}

// leg is one charge of a request on its way.
type leg struct {
	op      sluice.Op
	shard   *shard
	key     uint64
	facts   *facts
	entry   *entry // nil before it is sent
	epoch   uint32 // when it was sent
	change  uint32 // when it was sent
	drops   uint32 // when it was sent
	unsound bool   // a denial decided before it may be wrong after it
}

// of returns the hold of f's limits, nil if there is none.
func (e *entry) of(f *facts) *hold {
	for h := e.holds; h != nil; h = h.next {
		if h.facts.id == f.id {
			h.facts = f
			return h
		}
	}
	return nil
}

// memory returns where the denials under f's limits are kept.
func (e *entry) memory(f *facts) *denial {
	if f.leased {
		if h := e.of(f); h != nil {
			return &h.denied
		}
	}
	return &e.denied
}

// joins reports whether f's limits are none that others in use have changed, or
// puts them in the place of these.
func (e *entry) joins(f *facts) bool {
	for i, other := range e.plans {
		switch {
		case other == nil:
			e.plans[i] = f
			return true
		case other.id == f.id:
			return true
		case other.changes(f):
			e.plans = [2]*facts{f}
			return false
		}
	}
	e.plans = [2]*facts{f}
	return false
}

// send notes that l is sent.
func (l *leg) send() {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	e := l.shard.entry(l.key)
	e.send(l)
	l.shard.settle(e)
}

// back notes that l is back, and its outcome.
func (l *leg) back(r *sluice.Result) {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	l.entry.back(l, r)
	l.shard.settle(l.entry)
}

// send notes that l is sent.
func (e *entry) send(l *leg) {
	l.shard.denials.Asked++
	if e.calls == 0 && !e.denies() {
		e.plans = [2]*facts{}
	}
	if l.op == sluice.OpReset {
		e.drop()
	}
	if !e.joins(l.facts) {
		// A take under changed limits carries the key's state over to them, and what
		// comes back later may be worth less.
		e.change++
		e.unsound = e.calls
		e.forget()
	}
	l.unsound = alters(l.op)
	l.entry, l.epoch, l.change, l.drops = e, e.epoch, e.change, e.drops
	e.calls++
	if l.unsound {
		e.unsound++
		e.clear()
	}
}

// alters reports whether an operation that is no take may change the answers to a key.
func alters(op sluice.Op) bool {
	switch op {
	case sluice.OpReset, sluice.OpRefund, sluice.OpCharge, sluice.OpAdd, sluice.OpConvert:
		return true
	default:
		return false
	}
}

// gives notes that l gives units back before it takes any: what others are reported
// may be wrong, but the answers to l are not.
func (e *entry) gives(l *leg) {
	if !l.unsound {
		l.unsound = true
		e.unsound++
	}
	e.forget()
	l.epoch = e.epoch
}

// back notes that l is back, and its outcome. It reports whether what l was
// reported may be remembered.
func (e *entry) back(l *leg, r *sluice.Result) (sound bool) {
	e.calls--
	unsound := l.unsound || l.change != e.change
	if unsound {
		e.unsound--
	}
	sound = e.unsound == 0 && l.epoch == e.epoch
	if unsound {
		e.epoch++ // whatever is under way was sent before now
	}
	if l.op == sluice.OpReset {
		e.drop()
	}
	switch {
	case r.Err != nil:
		e.clear()
	case r.Decision.Allowed:
		// It would still be denied, but for longer than is remembered.
		e.denied, *e.memory(l.facts) = denial{}, denial{}
	}
	return sound
}

// forget forgets what was denied, and whatever is about to be reported.
func (e *entry) forget() {
	e.epoch++
	e.clear()
}

// clear forgets what was denied.
func (e *entry) clear() {
	e.denied = denial{}
	for h := e.holds; h != nil; h = h.next {
		h.denied = denial{}
	}
}

// denies reports whether e remembers a denial.
func (e *entry) denies() bool {
	for h := e.holds; h != nil; h = h.next {
		if h.denied.known() {
			return true
		}
	}
	return e.denied.known()
}

// drop loses all units in hand.
func (e *entry) drop() {
	e.drops++
	for h := e.holds; h != nil; h = h.next {
		h.drop()
	}
}

// wait returns what callers wait for that take another call's answer.
func (e *entry) wait() *landing {
	if e.waiting == nil {
		e.waiting = &landing{back: make(chan struct{})}
	}
	return e.waiting
}

// land lets the waiters go on.
func (e *entry) land(err error) {
	e.flying = false
	if e.waiting != nil {
		e.waiting.err = err
		close(e.waiting.back) // they find what is learnt: the shard is locked until then
		e.waiting = nil
	}
}
