// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// holdRound is a decision on items with holds.
type holdRound struct {
	req    *sluice.Request
	items  []Item
	holds  []*Holds
	before []Item // the items to keep if nothing else is written
	ended  []bool // whether an item of before must be kept
	now    int64
}

// holding reports whether req needs [decideHeld].
func holding(req *sluice.Request, items []Item) bool {
	for i := range items {
		if items[i].Holds != nil {
			return true
		}
	}
	return req.Hold != nil
}

// decideHeld decides a request that names a hold, or whose keys have holds, by the rules of
// docs/adr/0072-holds.md. First all holds that are over end, each at its own end. plain
// decides a request over the items, which then have no holds, at now.
func decideHeld(req *sluice.Request, items []Item, now int64, plain func(*sluice.Request) sluice.Decision) (d sluice.Decision) {
	r := begin(req, items, now)
	asked := *req
	asked.Hold = nil
	switch {
	case req.Op == sluice.OpSettle:
		d = r.settle(&asked, plain)
	case req.Op == sluice.OpExtend:
		d = r.extend(&asked, plain)
	case req.Hold != nil:
		d = r.take(&asked, plain)
	default:
		d = plain(&asked)
	}
	r.finish()
	return d
}

// finish sets the holds of the items again.
func (r *holdRound) finish() {
	for i := range r.items {
		r.note(i)
		r.items[i].Holds = r.holds[i]
	}
}

// begin removes the holds from items, and ends those that are over.
func begin(req *sluice.Request, items []Item, now int64) *holdRound {
	r := &holdRound{req: req, items: items, now: now, holds: make([]*Holds, len(items)), before: make([]Item, len(items)), ended: make([]bool, len(items))}
	for i := range items {
		if r.holds[i] = items[i].Holds; r.holds[i] == nil {
			r.holds[i] = new(Holds) // the store keeps none
		}
		items[i].Holds = nil
		if r.holds[i].Lost {
			r.holds[i].void()
		}
		r.end(i)
		switch req.Op { //nolint:exhaustive // the others leave the units of holds
		case sluice.OpAdd:
			r.holds[i].void()
		case sluice.OpReset:
			r.holds[i].reset()
		}
		r.save(i)
	}
	return r
}

// note keeps the states of an item before the last decision on it, unless that has written
// them.
func (r *holdRound) note(i int) {
	it, was := &r.items[i], &r.before[i]
	if !it.Written {
		it.Term, it.State, it.Others = was.Term, was.State, was.Others
	}
	r.ended[i] = r.ended[i] || it.Written
	it.Written = r.ended[i]
}

// save keeps the states of an item before a decision on it.
func (r *holdRound) save(i int) {
	r.before[i] = r.items[i]
	r.before[i].Others = slices.Clone(r.items[i].Others)
}

// end ends the open holds of an item that are over, in the order of their ends and each at its
// own, and forgets ids that need not be remembered.
func (r *holdRound) end(i int) {
	h, now := r.holds[i], r.now
	if !h.Whole(r.req, now) {
		return
	}
	var due []string
	for id, e := range h.List {
		switch {
		case e.State != sluice.HoldOpen || e.Gen < h.Reset:
			if e.Until = max(e.Until, e.End); e.Until <= now {
				h.put(id, e, Hold{})
			}
			continue
		case e.End-now > e.TTL: // the clock stepped back
			was := e
			e.End = now + e.TTL
			h.put(id, was, e)
		}
		if e.End <= now {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(cmp.Compare(h.List[a].End, h.List[b].End), cmp.Compare(a, b)) })
	for _, id := range due {
		e := h.List[id]
		over := e
		over.State, over.Units, over.Until = sluice.HoldExpired, 0, e.End+memory(e.TTL)
		r.giveBack(i, &e, e.Units, e.End)
		h.put(id, e, over)
		if over.Until <= now {
			h.put(id, over, Hold{})
		}
	}
	h.forget()
	h.Next, h.Longest = 0, 0
	for _, e := range h.List {
		if e.State == sluice.HoldOpen && e.Gen >= h.Reset {
			h.Longest = max(h.Longest, e.TTL)
			if h.Next == 0 || e.End < h.Next {
				h.Next = e.End
			}
		}
	}
	h.Written = true
}

// one decides an operation on one item alone.
func (r *holdRound) one(i int, op sluice.Op, units, counted, at, now int64) sluice.Decision {
	it := &r.items[i]
	r.save(i)
	it.Cost, it.Counted, it.Void = units, counted, 0 // Gen says which units are void
	req := sluice.Request{Op: op, Charge: r.req.Charge, At: sluice.Instant(at)}
	req.Cost, req.Counted = units, counted
	d := Decide(&req, r.items[i:i+1], now)
	term := r.before[i].Term
	if it.Written {
		since := it.State.Since
		states := it.Keep(nil)
		it.Term = term
		it.Pick(states)
		if it.State.Zero() {
			it.State.Since = since
		}
	}
	r.note(i)
	it.Cost, it.Counted, it.Void = r.before[i].Cost, r.before[i].Counted, r.before[i].Void
	return d
}

// giveBack gives back units of a hold at an instant, as far as they still count.
func (r *holdRound) giveBack(i int, e *Hold, units, now int64) {
	if units > 0 && e.Gen >= r.holds[i].Void && e.At <= now && e.Form == int64(r.items[i].Term.Form) {
		r.one(i, sluice.OpRefund, units, e.Units, e.At, now)
	}
}

// describe decides nothing, and describes the limits.
func (r *holdRound) describe(asked *sluice.Request, plain func(*sluice.Request) sluice.Decision, state sluice.HoldState, spent int64) sluice.Decision {
	for i := range r.items {
		r.save(i)
		r.items[i].Cost, r.items[i].Counted = 0, 0
	}
	asked.Op, asked.At, asked.Due = sluice.OpRefund, 0, 0 // no receipt, so nothing is given back
	d := plain(asked)
	d.At, d.Hold, d.Spent = 0, state, spent
	return d
}

// settle settles the hold of the request under each limit.
func (r *holdRound) settle(asked *sluice.Request, plain func(*sluice.Request) sluice.Decision) sluice.Decision {
	id, retry, ttl := r.req.Hold.ID, r.req.Hold.Retry, r.req.Hold.TTL.Microseconds()
	if r.req.Hold.Settled {
		r.remove()
		return r.describe(asked, plain, sluice.HoldUnknown, 0)
	}
	state, spent := sluice.HoldSettled, int64(-1)
	actual := make([]int64, len(r.items))
	for i := range r.items {
		actual[i] = r.items[i].Cost
	}
	for i := range r.items {
		h := r.holds[i]
		e, ok := h.find(id, r.now)
		was, units := h.List[id], actual[i]
		switch {
		case ok && e.State == sluice.HoldOpen:
			if r.giveBack(i, &e, e.Units-units, r.now); units > e.Units {
				units = e.Units + r.one(i, sluice.OpCharge, units-e.Units, 0, 0, r.now).Spent
			}
			e.State, e.Units, e.Until = sluice.HoldSettled, units, max(e.End, r.now+memory(e.TTL))
			h.put(id, was, e)
		case ok && e.State == sluice.HoldSettled:
			units = e.Units
		case !ok && retry:
			state, units = max(state, sluice.HoldUnknown), 0
		default:
			if !ok {
				e = Hold{Cost: -1, TTL: ttl, End: r.now}
			}
			if units > 0 {
				units = r.one(i, sluice.OpCharge, units, 0, 0, r.now).Spent
			}
			state = max(state, sluice.HoldExpired)
			e.State, e.Units, e.Until = sluice.HoldSettled, units, r.now+memory(max(e.TTL, ttl))
			h.put(id, was, e)
		}
		if actual[i] = units; i < r.req.Plan.Len() && (spent < 0 || units < spent) {
			spent = units
		}
	}
	d := r.describe(asked, plain, state, spent)
	for i := range asked.Outcomes.All() {
		(*asked.Outcomes)[i].Spent = actual[i]
	}
	return d
}

// extend sets the end of the request's hold under each limit.
func (r *holdRound) extend(asked *sluice.Request, plain func(*sluice.Request) sluice.Decision) sluice.Decision {
	id, ttl := r.req.Hold.ID, r.req.Hold.TTL.Microseconds()
	state := sluice.HoldOpen
	for i := range r.items {
		h := r.holds[i]
		switch e, ok := h.find(id, r.now); {
		case !ok:
			state = max(state, sluice.HoldUnknown)
		case e.State != sluice.HoldOpen:
			state = max(state, e.State)
		default:
			was := e
			e.End, e.TTL = max(e.End, r.now+ttl), max(e.TTL, ttl)
			h.put(id, was, e)
		}
	}
	d := r.describe(asked, plain, state, 0)
	d.Allowed = state == sluice.HoldOpen
	return d
}

// take decides a take that opens a hold, or a peek of one. Limits under which the hold is
// known charge nothing again.
func (r *holdRound) take(asked *sluice.Request, plain func(*sluice.Request) sluice.Decision) sluice.Decision {
	id := r.req.Hold.ID
	known, full, first := 0, false, int64(0)
	var state sluice.HoldState
	costs := make([]int64, len(r.items))
	for i := range r.items {
		it, h := &r.items[i], r.holds[i]
		costs[i] = it.Cost
		e, ok := h.find(id, r.now)
		switch {
		case !ok || e.State == sluice.HoldExpired:
			switch {
			case h.Full:
				full, first = true, max(first, r.now+sluice.MinHold.Microseconds())
			case h.Open >= bounds.MaxHolds && !r.req.Hold.Settled:
				full, first = true, max(first, h.Next)
			}
			continue
		case e.Cost >= 0 && e.Cost != it.Cost:
			clear(r.req.Outcomes.All())
			return sluice.Decision{Hold: sluice.HoldDiffers, RetryAfter: sluice.MaxRetryAfter, Due: sluice.Instant(r.now)}
		}
		known++
		state = max(state, e.State)
		it.Cost = 0
	}
	switch {
	case known == len(r.items) && r.req.Op == sluice.OpPeek:
		return r.describe(asked, plain, state, 0)
	case known == len(r.items):
		return r.describe(asked, plain, state, r.req.Cost)
	case full:
		asked.Op = sluice.OpPeek
	}
	d := plain(asked)
	switch {
	case full:
		d.Allowed, d.Spent, d.Delay, d.Hold = false, 0, 0, sluice.HoldsFull
		d.RetryAfter = max(d.RetryAfter, time.Duration(first-r.now)*time.Microsecond)
	case r.req.Op == sluice.OpPeek:
		d.Hold = state
	case !d.Allowed:
		r.remove()
	default:
		d.Hold = state
		r.open(costs, int64(d.At), &d)
	}
	d.At = 0
	return d
}

// open opens the request's hold under the limits under which it is not known.
func (r *holdRound) open(costs []int64, at int64, d *sluice.Decision) {
	id, ttl := r.req.Hold.ID, r.req.Hold.TTL.Microseconds()
	for i := range r.items {
		h := r.holds[i]
		if e, ok := h.find(id, r.now); ok && e.State != sluice.HoldExpired {
			continue
		}
		e := Hold{At: at, Units: costs[i], Cost: costs[i], TTL: ttl, End: r.now + ttl, Gen: h.Gen, State: sluice.HoldOpen}
		if t := r.items[i].Term; t == r.before[i].Term { // else it counts in the state of another limit
			e.Form = int64(t.Form)
		}
		if r.req.Hold.Settled {
			e.State, e.Until = sluice.HoldSettled, r.now+memory(ttl)
		}
		h.put(id, h.List[id], e)
		h.Counts = max(h.Counts, at+r.horizon(i))
		d.Hold, d.Spent = max(d.Hold, e.State), r.req.Cost
	}
}

// horizon returns the time for which units that an item counts may count, in µs.
func (r *holdRound) horizon(i int) int64 {
	it := &r.items[i]
	most := Horizon(it.Term)
	for k := range it.Others {
		most = max(most, Horizon(it.Others[k].By))
	}
	return most
}

// remove removes the request's open hold under all limits, and gives its units back.
func (r *holdRound) remove() {
	id := r.req.Hold.ID
	for i := range r.items {
		h := r.holds[i]
		if e, ok := h.find(id, r.now); ok && e.State == sluice.HoldOpen {
			r.note(i)
			r.giveBack(i, &e, e.Units, r.now)
			h.put(id, h.List[id], Hold{})
		}
	}
}
