// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// Decide decides a valid request at instant now over the states of all its
// limits: items are those of req.Charge in their order, then of req.More. It
// changes the states of all or, where the request is denied, of none, except
// that a log may count denials and that a key's initial state is kept. It fills
// req.Outcomes. It allocates only where a ring must grow.
func Decide(req *sluice.Request, items []Item, now int64) sluice.Decision {
	now = clamp(now)
	if len(items) == 1 && req.Op == sluice.OpTake && req.MaxWait == 0 && len(req.Outcomes) == 0 {
		return items[0].take(now)
	}
	r := round{req: req, items: items, now: now}
	for i := range items {
		items[i].prepare(counterOf(items[i].Term), now)
	}
	switch req.Op {
	case sluice.OpTake, sluice.OpPeek, sluice.OpReserve:
		return r.take(req.Op)
	case sluice.OpTakeUpTo:
		return r.takeUpTo()
	case sluice.OpCharge:
		return r.charge()
	case sluice.OpRefund:
		return r.refund()
	default:
		return r.reset()
	}
}

// take decides what most requests are, a take under one limit, as [round.take]
// would, without its bookkeeping.
func (it *Item) take(now int64) (d sluice.Decision) {
	c := counterOf(it.Term)
	it.prepare(c, now)
	d.At, d.Due = sluice.Instant(now), sluice.Instant(now)
	if at := it.earliest(c, now, it.Cost); at <= now {
		if it.queues() {
			delay := it.delayIf(now, it.Cost)
			d.Delay, d.Due = micros(delay), d.Due+sluice.Instant(delay)
		}
		if it.Cost > 0 {
			c.spend(it.Term, &it.State, now, now, it.Cost)
			it.Written = true
		}
		d.Allowed, d.Spent = true, it.Cost
	} else {
		if it.wait = never; at != never {
			it.wait = at - now
		}
		if it.Term.CountDenied && it.Cost > 0 {
			slidingLog{}.record(it.Term, &it.State, now, it.Cost)
			it.Written = true
			at = it.earliest(c, now, it.Cost)
		}
		d.RetryAfter = sluice.Never
		if at != never {
			d.RetryAfter = micros(at - now)
		}
	}
	d.Remaining = it.remaining(c, now)
	d.ResetAfter = micros(it.resetAfter(now))
	return d
}

// round is one request being decided.
type round struct {
	req   *sluice.Request
	items []Item
	now   int64
	least int64 // how far from now a reservation or charge counts at the earliest
}

// wait returns how far from now cost fits the item, never if it cannot.
func (r *round) wait(it *Item, cost int64) int64 {
	at := it.earliest(counterOf(it.Term), r.now, cost)
	if at == never {
		return never
	}
	wait := at - r.now
	if r.req.MaxWait > 0 || r.req.Op == sluice.OpReserve {
		// A cap on the delay is a shorter queue: what would wait longer is denied.
		wait = max(wait, it.delayIf(r.now, cost)-r.req.MaxWait.Microseconds())
	}
	return wait
}

// queues reports whether the limit holds requests back.
func (it *Item) queues() bool {
	return it.Term.Algorithm == sluice.LeakyBucket && it.Term.DelayAfter < it.Term.Burst
}

// delayIf returns how long a leaky bucket that queues would hold back cost.
func (it *Item) delayIf(now, cost int64) int64 {
	if !it.queues() {
		return 0
	}
	t := it.Term
	after := t.Rate.Add(debt(t, &it.State, now), t.Rate.Times(cost))
	return max(t.Rate.Sub(after, t.Rate.Times(t.DelayAfter)).Ceil(), 0)
}

func (r *round) take(op sluice.Op) sluice.Decision {
	longest, delay := r.least, int64(0)
	for i := range r.items {
		it := &r.items[i]
		it.wait = r.wait(it, it.Cost)
		longest = max(longest, it.wait)
		if it.wait < never {
			delay = max(delay, it.delayIf(r.now, it.Cost))
		}
	}
	allowed := longest == 0
	if op == sluice.OpReserve {
		delay = max(delay, longest)
		allowed = delay <= r.req.MaxWait.Microseconds()
	}
	if !allowed {
		return r.deny()
	}
	if op == sluice.OpPeek {
		r.forgetChanges()
		return held(r.answer(true), 0, delay)
	}
	for i := range r.items {
		it := &r.items[i]
		if it.Cost > 0 {
			counterOf(it.Term).spend(it.Term, &it.State, r.now, r.now+longest, it.Cost)
			it.Written = true
		}
	}
	d := r.answer(true)
	d.Spent = r.req.Cost
	return held(d, longest, delay)
}

// held returns d for units that count from wait µs on and go on after delay µs.
func held(d sluice.Decision, wait, delay int64) sluice.Decision {
	d.Delay = micros(delay)
	d.Due = d.At + sluice.Instant(delay)
	d.At += sluice.Instant(wait)
	return d
}

func (r *round) takeUpTo() sluice.Decision {
	n := int64(math.MaxInt64)
	for i := range r.items {
		switch it := &r.items[i]; {
		case it.Cost > 0:
			n = min(n, it.Cost, it.remaining(counterOf(it.Term), r.now))
		case r.wait(it, 0) > 0:
			n = 0
		}
	}
	if n == 0 {
		for i := range r.items {
			it := &r.items[i]
			it.Cost = min(it.Cost, 1)
			it.wait = r.wait(it, it.Cost)
		}
		return r.deny()
	}
	var delay int64
	for i := range r.items {
		it := &r.items[i]
		it.Cost = min(it.Cost, n)
		delay = max(delay, it.delayIf(r.now, it.Cost))
		if it.Cost > 0 {
			counterOf(it.Term).spend(it.Term, &it.State, r.now, r.now, it.Cost)
			it.Written = true
		}
	}
	d := r.answer(true)
	d.Spent = min(r.req.Cost, n)
	return held(d, 0, delay)
}

func (r *round) charge() sluice.Decision {
	spent, wait := r.req.Cost, r.least
	for i := range r.items {
		// Units count no earlier than those reserved before.
		if it := &r.items[i]; it.State.Reserved {
			wait = max(wait, counterOf(it.Term).instant(it.Term, &it.State)-r.now)
		}
	}
	for i := range r.items {
		it := &r.items[i]
		c := counterOf(it.Term)
		room := full(it.Term) + it.Term.Debt - c.counted(it.Term, &it.State, r.now)
		cost := max(min(it.Cost, room), 0)
		if cost > 0 {
			c.spend(it.Term, &it.State, r.now, r.now+wait, cost)
			it.Written = true
		}
		if i < r.req.Plan.Len() {
			spent = min(spent, cost)
		}
	}
	d := r.answer(true)
	d.Spent = spent
	return held(d, wait, 0)
}

func (r *round) refund() sluice.Decision {
	var most int64
	queues := 0
	for i := range r.items {
		if r.items[i].queues() {
			queues++
		}
	}
	for i := range r.items {
		it := &r.items[i]
		at := int64(r.req.At)
		due := at
		if queues == 1 && it.queues() { // with several, Due may be another's
			due = max(due, int64(r.req.Due))
		}
		before := it.State
		back := counterOf(it.Term).refund(it.Term, &it.State, r.now, at, due, it.Cost)
		// A bucket may have got back a part of a unit.
		it.Written = it.Written || back > 0 || it.State.Idle != before.Idle || it.State.A != before.A
		if i < r.req.Plan.Len() {
			most = max(most, back)
		}
	}
	d := r.answer(true)
	d.Spent = -most
	return d
}

func (r *round) reset() sluice.Decision {
	for i := range r.items {
		r.items[i].State.clear()
		r.items[i].Written = true
	}
	return r.answer(true)
}

// deny leaves every state as it is, but for the logs that count denials.
func (r *round) deny() sluice.Decision {
	switch r.req.Op {
	case sluice.OpPeek:
		r.forgetChanges()
	case sluice.OpTake, sluice.OpTakeUpTo:
		for i := range r.items {
			if it := &r.items[i]; it.Term.CountDenied && it.Cost > 0 {
				slidingLog{}.record(it.Term, &it.State, r.now, it.Cost)
				it.Written = true
			}
		}
	default: // a reservation that is denied is not one that was refused service
	}
	return r.answer(false)
}

// forgetChanges makes the request one that has only looked.
func (r *round) forgetChanges() {
	for i := range r.items {
		r.items[i].Written = false
	}
}

// answer describes the states as they are now: the limit that binds is the one
// that denies for longest or, if all allow, the one with the least left in
// relation to its cost.
func (r *round) answer(allowed bool) sluice.Decision {
	var d sluice.Decision
	for i := range r.items {
		it := &r.items[i]
		o := sluice.Outcome{
			Allowed:    true,
			Remaining:  it.remaining(counterOf(it.Term), r.now),
			ResetAfter: micros(it.resetAfter(r.now)),
		}
		if !allowed {
			// Not it.wait again: a log may have counted this denial since.
			o.Allowed, o.RetryAfter = it.wait == 0, micros(r.wait(it, it.Cost))
		}
		if i == 0 || binds(&o, it.Cost, &d, r.items[d.Binding].Cost) {
			d.Binding, d.Remaining, d.RetryAfter, d.ResetAfter = i, o.Remaining, o.RetryAfter, o.ResetAfter
		}
		if len(r.req.Outcomes) > 0 {
			r.req.Outcomes[i] = o
		}
	}
	d.Allowed = allowed
	d.At = sluice.Instant(r.now)
	d.Due = d.At
	return d
}

// binds reports whether an outcome binds more than the one d holds so far.
func binds(o *sluice.Outcome, cost int64, d *sluice.Decision, binding int64) bool {
	if o.RetryAfter != d.RetryAfter {
		return o.RetryAfter > d.RetryAfter
	}
	return span.LessProduct(o.Remaining, max(binding, 1), d.Remaining, max(cost, 1))
}

// micros returns n µs as a Duration, Never if n is never.
func micros(n int64) time.Duration {
	if n == never {
		return sluice.Never
	}
	return time.Duration(n) * time.Microsecond
}
