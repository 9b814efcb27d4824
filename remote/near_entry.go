// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"github.com/sluicegate/sluice"
)

// entry holds the knowledge of one key of a scope: the end of its denial, the units in hand,
// and the calls to the store under way. The lock of its shard guards it.
type entry struct {
	key       uint64       // a hash of scope and key
	denied    denial       // under limits that are not leased
	leases    *lease       // one for each leased plan
	plans     [2]*planInfo // of calls under way and of denials; none changes a limit of another
	waiters   *waiters     // nil if nobody waits
	epoch     uint32       // counts events that could have made a denial wrong
	change    uint32       // counts changes of limits
	drops     uint32       // counts losses of all units in hand, as by a reset
	calls     int32        // calls under way
	unsound   int32        // calls that could make a denial wrong, as all sent before a change of limits
	hasLeader bool         // others wait for the answer to one of the calls
	remembers bool         // it is counted in the shard's kept
}

// waiters are the callers that wait for another call's answer.
type waiters struct {
	done chan struct{}
	err  error // set before done is closed: their error; nil if they must ask themselves
}

// sentCharge is one charge of a request that is sent to the store.
type sentCharge struct {
	op      sluice.Op
	shard   *shard
	key     uint64
	info    *planInfo
	entry   *entry // nil before it is sent
	epoch   uint32 // when it was sent
	change  uint32 // when it was sent
	drops   uint32 // when it was sent
	unsound bool   // a denial decided before it may be wrong after it
}

// leaseOf returns the lease under pi's limits, nil if there is none.
func (e *entry) leaseOf(pi *planInfo) *lease {
	for l := e.leases; l != nil; l = l.next {
		if l.info.id == pi.id {
			l.info = pi
			return l
		}
	}
	return nil
}

// denialUnder returns the denial under pi's limits.
func (e *entry) denialUnder(pi *planInfo) *denial {
	if pi.leased {
		if l := e.leaseOf(pi); l != nil {
			return &l.denied
		}
	}
	return &e.denied
}

// usePlan adds pi to the plans in use. It reports false if pi changes a limit of theirs;
// pi replaces them then.
func (e *entry) usePlan(pi *planInfo) bool {
	for i, other := range e.plans {
		switch {
		case other == nil:
			e.plans[i] = pi
			return true
		case other.id == pi.id:
			return true
		case other.changes(pi):
			e.plans = [2]*planInfo{pi}
			return false
		}
	}
	e.plans = [2]*planInfo{pi}
	return false
}

// noteSent records that l is sent.
func (l *sentCharge) noteSent() {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	e := l.shard.entry(l.key)
	e.noteSent(l)
	l.shard.settle(e)
}

// noteAnswer records the answer to l.
func (l *sentCharge) noteAnswer(r *sluice.Result) {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	l.entry.noteAnswer(l, r)
	l.shard.settle(l.entry)
}

// noteSent records that l is sent.
func (e *entry) noteSent(l *sentCharge) {
	l.shard.denials.Asked++
	if e.calls == 0 && !e.remembersDenial() {
		e.plans = [2]*planInfo{}
	}
	if l.op == sluice.OpReset {
		e.dropUnits()
	}
	if !e.usePlan(l.info) {
		// A take under changed limits converts the key's state, and a refund that comes
		// back later may give back less.
		e.change++
		e.unsound = e.calls
		e.forgetDenials()
	}
	l.unsound = alters(l.op)
	l.entry, l.epoch, l.change, l.drops = e, e.epoch, e.change, e.drops
	e.calls++
	if l.unsound {
		e.unsound++
		e.clearDenials()
	}
}

// alters reports whether an operation, other than a take, may change the answers to a key.
func alters(op sluice.Op) bool {
	switch op {
	case sluice.OpReset, sluice.OpRefund, sluice.OpCharge, sluice.OpAdd, sluice.OpConvert, sluice.OpSettle:
		return true
	default:
		return false
	}
}

// noteRefund records that l refunds units before it takes any: denials decided before it
// may be wrong, the answer to l is not.
func (e *entry) noteRefund(l *sentCharge) {
	if !l.unsound {
		l.unsound = true
		e.unsound++
	}
	e.forgetDenials()
	l.epoch = e.epoch
}

// noteAnswer records the answer to l. It reports whether a denial of l may be
// remembered.
func (e *entry) noteAnswer(l *sentCharge, r *sluice.Result) (sound bool) {
	e.calls--
	unsound := l.unsound || l.change != e.change
	if unsound {
		e.unsound--
	}
	sound = e.unsound == 0 && l.epoch == e.epoch
	if unsound {
		e.epoch++ // all calls under way were sent before now
	}
	if l.op == sluice.OpReset {
		e.dropUnits()
	}
	switch {
	case r.Err != nil:
		e.clearDenials()
	case r.Decision.Allowed:
		// The remembered cost would still be denied, but for longer than is known.
		e.denied, *e.denialUnder(l.info) = denial{}, denial{}
	}
	return sound
}

// forgetDenials forgets the denials, also those of calls under way.
func (e *entry) forgetDenials() {
	e.epoch++
	e.clearDenials()
}

// clearDenials forgets the denials.
func (e *entry) clearDenials() {
	e.denied = denial{}
	for l := e.leases; l != nil; l = l.next {
		l.denied = denial{}
	}
}

// remembersDenial reports whether e holds a denial.
func (e *entry) remembersDenial() bool {
	for l := e.leases; l != nil; l = l.next {
		if l.denied.known() {
			return true
		}
	}
	return e.denied.known()
}

// dropUnits loses all units in hand.
func (e *entry) dropUnits() {
	e.drops++
	for l := e.leases; l != nil; l = l.next {
		l.dropUnits()
	}
}

// wait returns the waiters, for a caller that joins them.
func (e *entry) wait() *waiters {
	if e.waiters == nil {
		e.waiters = &waiters{done: make(chan struct{})}
	}
	return e.waiters
}

// releaseWaiters ends the wait of all waiters.
func (e *entry) releaseWaiters(err error) {
	e.hasLeader = false
	if e.waiters != nil {
		e.waiters.err = err
		close(e.waiters.done) // the shard is locked, so they find the new state
		e.waiters = nil
	}
}
