// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// Decide decides a valid request at instant now over the states of all its limits. items
// are the limits of req.Charge in their order, then those of req.More. Decide changes all
// states, or none if the request is denied; but a limit or a block may count the denial, and
// a key's initial state is kept. It fills req.Outcomes. It allocates only if a ring must
// grow.
func Decide(req *sluice.Request, items []Item, now int64) sluice.Decision {
	now = clamp(now)
	if len(items) == 1 && req.Op == sluice.OpTake && req.MaxWait == 0 && req.Outcomes == nil && req.Hold == nil && items[0].Holds == nil {
		return items[0].take(now)
	}
	if holding(req, items) {
		return decideHeld(req, items, now, func(req *sluice.Request) sluice.Decision { return Decide(req, items, now) })
	}
	r := round{req: req, items: items, now: now}
	r.prepare()
	switch req.Op {
	case sluice.OpTake, sluice.OpPeek, sluice.OpReserve:
		return r.take(req.Op)
	case sluice.OpTakeUpTo:
		return r.takeUpTo()
	case sluice.OpCharge:
		return r.charge()
	case sluice.OpRefund:
		return r.refund()
	case sluice.OpAdd:
		return r.add()
	case sluice.OpConvert:
		return r.convert()
	case sluice.OpReset:
		return r.reset()
	default:
		return r.deny() // no other operation comes here
	}
}

// take decides a take under one limit, the most frequent request, as [round.take] does,
// without its bookkeeping.
func (it *Item) take(now int64) (d sluice.Decision) {
	it.prepare(now)
	it.see(now)
	c := counterOf(it.Term)
	d.At, d.Due = sluice.Instant(now), sluice.Instant(now)
	if at := it.earliest(c, now, it.Cost); at <= now {
		if it.Term.Queues {
			delay := it.delayIf(now, it.Cost)
			d.Delay, d.Due = micros(delay), d.Due+sluice.Instant(delay)
		}
		it.spend(c, now, now, it.Cost)
		d.Allowed, d.Spent = true, it.Cost
		d.At = it.countedAt(d.At)
	} else {
		if it.wait = never; at != never {
			it.wait = at - now
		}
		if it.denied(now) {
			at = it.earliest(c, now, it.Cost)
		}
		if at != never {
			at -= now
		}
		d.RetryAfter, d.TooLarge = retryAfter(at)
	}
	d.Remaining = it.remaining(c, now)
	d.ResetAfter = micros(it.resetAfter(c, now))
	return d
}

// denied keeps the changes of a denial: a limit may count it, and a limit that meets
// the balance of another records that. It reports whether the denial was counted.
func (it *Item) denied(now int64) bool {
	it.Written = it.Written || it.met
	if !it.Term.CountDenied || it.Cost <= 0 || !counterOf(it.Term).deny(it.Term, &it.State, now, it.Cost) {
		return false
	}
	it.Written = true
	it.sign()
	return true
}

// round is one request being decided.
type round struct {
	req   *sluice.Request
	items []Item
	now   int64
	least int64 // µs from now before which no reservation or charge counts
	// queues is the number of limits that delay requests, wherever their units count.
	queues int
	blocks bool // one of the limits is a block
}

// prepare readies all items.
func (r *round) prepare() {
	for i := range r.items {
		it := &r.items[i]
		if it.Term.Queues {
			r.queues++
		}
		r.blocks = r.blocks || blocks(it.Term)
		it.prepare(r.now) // after Queues: it may replace Term by another limit of the name
		switch r.req.Op {
		case sluice.OpRefund, sluice.OpReset, sluice.OpAdd, sluice.OpConvert: // work on the states as kept
		default:
			it.see(r.now)
		}
	}
}

// wait returns the time from now until cost fits the item, never if it cannot fit.
func (r *round) wait(it *Item, cost int64) int64 {
	at := it.earliest(counterOf(it.Term), r.now, cost)
	if at == never {
		return never
	}
	wait := at - r.now
	if r.req.MaxWait > 0 || r.req.Op == sluice.OpReserve {
		// A cap on the delay is a shorter queue: a request that would wait longer is denied.
		wait = max(wait, it.delayIf(r.now, cost)-r.req.MaxWait.Microseconds())
	}
	return wait
}

// delayIf returns how long a leaky bucket that queues would delay cost.
func (it *Item) delayIf(now, cost int64) int64 {
	if !it.Term.Queues {
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
		it.spend(counterOf(it.Term), r.now, r.now+longest, it.Cost)
		it.spent = it.Cost
	}
	d := r.answer(true)
	d.Spent = r.req.Cost
	d = held(d, longest, delay)
	r.countedAt(&d)
	return d
}

// countedAt sets At to the instant at which the logs have counted: that of their newest
// entry if the caller's clock is behind it.
func (r *round) countedAt(d *sluice.Decision) {
	for i := range r.items {
		d.At = r.items[i].countedAt(d.At)
	}
}

func (it *Item) countedAt(at sluice.Instant) sluice.Instant {
	if it.Cost > 0 && logs(it.Term) && !it.State.Reserved {
		return max(at, sluice.Instant(it.State.Idle-it.Term.Micros))
	}
	return at
}

// held returns d for units that count after wait µs and are due after delay µs.
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
		it.spend(counterOf(it.Term), r.now, r.now, it.Cost)
		it.spent = it.Cost
	}
	d := r.answer(true)
	d.Spent = min(r.req.Cost, n)
	d = held(d, 0, delay)
	r.countedAt(&d)
	return d
}

func (r *round) charge() sluice.Decision {
	spent, wait := r.req.Cost, max(r.least, turnOf(r.items, r.now))
	for i := range r.items {
		it := &r.items[i]
		c := counterOf(it.Term)
		if it.State.Last > 0 && !own(it.Term, &it.State) {
			it.State.Last = max(it.State.Last, r.now) // a charge uses only the writer's rate
		}
		room := full(it.Term) + it.Term.Debt - c.counted(it.Term, &it.State, r.now)
		cost := max(min(it.Cost, room), 0)
		it.spend(c, r.now, r.now+wait, cost)
		it.spent = cost
		if i < r.req.Plan.Len() {
			spent = min(spent, cost)
		}
	}
	d := r.answer(true)
	d.Spent = spent
	d = held(d, wait, 0)
	r.countedAt(&d)
	return d
}

func (r *round) refund() sluice.Decision {
	var most int64
	for i := range r.items {
		it := &r.items[i]
		if int64(r.req.At) <= it.Void {
			continue
		}
		g := grant{at: int64(r.req.At), due: int64(r.req.At), units: it.Cost, held: max(it.Counted, it.Cost)}
		// With several queues, Due may be another's. A part of a receipt has another due instant.
		if r.queues == 1 && it.Term.Queues && g.units == g.held {
			g.due = max(g.due, int64(r.req.Due))
		}
		back := it.refund(g, r.now)
		it.spent = -back
		if i < r.req.Plan.Len() {
			most = max(most, back)
		}
	}
	d := r.describe()
	d.Spent = -most
	return d
}

// describe is answer for an operation that works on the states as kept, without see.
func (r *round) describe() sluice.Decision {
	var room [4]State
	states := room[:0]
	for i := range r.items {
		it := &r.items[i]
		states = append(states, it.State)
		it.see(r.now)
	}
	d := r.answer(true)
	for i := range states {
		r.items[i].State = states[i]
	}
	return d
}

// refund gives the units of g back in every state of the key, and returns the largest
// number of units given back in one of them.
func (it *Item) refund(g grant, now int64) int64 {
	if blocks(it.Term) {
		return 0 // the units of the other forms were not spent under a block
	}
	g.foreign = !own(it.Term, &it.State)
	back := counterOf(it.Term).refund(it.Term, &it.State, now, g)
	it.Written = it.Written || back > 0
	for i := range it.Others {
		// A log knows its units by their instants. Other forms may not have counted the
		// units, or only some of them.
		if o := &it.Others[i]; !o.Zero() && o.By.Kind == compiled.SlidingLog {
			n := counterOf(o.By).refund(o.By, o, now, g)
			it.Written = it.Written || n > 0
			back = max(back, n)
		}
	}
	return back
}

func (r *round) reset() sluice.Decision {
	for i := range r.items {
		it := &r.items[i]
		it.Void = it.void(r.now)
		it.State.clear()
		clear(it.Others)
		it.Others, it.Written = it.Others[:0], true
	}
	return r.describe()
}

// deny changes only the states of limits and blocks that count denials.
func (r *round) deny() sluice.Decision {
	switch r.req.Op {
	case sluice.OpPeek:
		r.forgetChanges()
	case sluice.OpTake, sluice.OpTakeUpTo:
		for i := range r.items {
			it := &r.items[i]
			it.denied(r.now)
		}
		if r.blocks {
			r.countDenial()
		}
	default: // a denied reservation does not count as a denial
	}
	return r.answer(false)
}

// forgetChanges makes the request a peek: no state is written.
func (r *round) forgetChanges() {
	for i := range r.items {
		r.items[i].Written = false
	}
}

// answer describes the current states. The binding limit is the one that denies for
// longest or, if all allow, the one with the least left in relation to its cost.
func (r *round) answer(allowed bool) sluice.Decision {
	var d sluice.Decision
	for i := range r.items {
		it := &r.items[i]
		o := sluice.Outcome{
			Allowed:    true,
			Remaining:  it.remaining(counterOf(it.Term), r.now),
			ResetAfter: micros(it.resetAfter(counterOf(it.Term), r.now)),
			Spent:      it.spent,
		}
		if !allowed {
			// it.wait is out of date: the limit may have counted this denial since.
			o.Allowed = it.wait == 0
			o.RetryAfter, o.TooLarge = retryAfter(r.wait(it, it.Cost))
		}
		if i == 0 || binds(&o, it.Cost, &d, r.items[d.Binding].Cost) {
			d.Binding, d.TooLarge = i, o.TooLarge
			d.Remaining, d.RetryAfter, d.ResetAfter = o.Remaining, o.RetryAfter, o.ResetAfter
		}
		if r.req.Outcomes != nil {
			(*r.req.Outcomes)[i] = o
		}
	}
	d.Allowed = allowed
	d.At = sluice.Instant(r.now)
	d.Due = d.At
	return d
}

// binds reports whether an outcome binds more than that of d.
func binds(o *sluice.Outcome, cost int64, d *sluice.Decision, binding int64) bool {
	if o.TooLarge != d.TooLarge {
		return o.TooLarge
	}
	if o.RetryAfter != d.RetryAfter {
		return o.RetryAfter > d.RetryAfter
	}
	return span.LessProduct(o.Remaining, max(binding, 1), d.Remaining, max(cost, 1))
}
