// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// flight is a request on its way through near and on to the store.
type flight struct {
	question
	req    *sluice.Request // as the store is asked, unless units are leased
	facts  *facts          // of the first charge
	learns bool            // what the store answers may be remembered, and may be known
	leases bool            // units in hand can answer it
	flies  bool            // others wait for what it learns
	landed bool

	hold   *hold            // of a flight that leases, unless there is no room
	spares []sluice.Request // refunds that go with it

	first leg
	legs  []leg // of all other charges
	batch bool  // it is one of a batch:
	index int   // the how manieth
}

// ready prepares the flight of req.
func (n *near) ready(f *flight, req *sluice.Request) (err error) {
	if f.facts, err = n.of(req.Plan); err != nil {
		return err
	}
	f.req, f.cost = req, req.Cost
	f.leases = f.facts.leases(req)
	f.learns = f.facts.plain(req) || f.leases && f.facts.deniable
	f.first = n.leg(req.Op, f.facts, req.Key)
	leased := f.facts.leased && !f.leases
	if len(req.More) > 0 {
		f.legs = make([]leg, len(req.More))
	}
	for i := range f.legs {
		facts, err := n.of(req.More[i].Plan)
		if err != nil {
			return err
		}
		leased = leased || facts.leased
		f.legs[i] = n.leg(req.Op, facts, req.More[i].Key)
	}
	if leased {
		asked := *req
		f.req = &asked
		return n.plain(f.req)
	}
	return nil
}

// rounds is how often a take that leases waits for another's answer before it
// asks alone; others wait once, and none of a batch.
const rounds = 2

// begin answers f into d if that can be done here. Else it notes that f is on its
// way, and it must land; or it returns what to wait for before the next round.
func (n *near) begin(f *flight, d *sluice.Decision, round int) (done bool, wait *landing) {
	if f.req.Op == sluice.OpPeek {
		return f.facts.leased && n.peek(f, d), nil
	}
	f.sent = n.clock()
	if done, wait = f.begin(d, round); done || wait != nil {
		return done, wait
	}
	for i := range f.legs {
		f.legs[i].send()
	}
	return false, nil
}

// peek answers an OpPeek for which there are units in hand.
func (n *near) peek(f *flight, d *sluice.Decision) (ok bool) {
	if len(f.req.More) > 0 || f.req.MaxWait > 0 || f.cost == 0 || f.req.Slot != nil {
		return false
	}
	sh := f.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[f.first.key]; e != nil {
		if h := e.of(f.facts); h != nil {
			*d, ok = h.peek(n.clock(), f.cost, f.req.Outcomes.All())
			sh.settle(e)
		}
	}
	return ok
}

// begin is near's for the first key.
func (f *flight) begin(d *sluice.Decision, round int) (done bool, wait *landing) {
	sh := f.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entry(f.first.key)
	defer sh.settle(e)
	if f.leases && f.inHand(e, d, round) {
		return true, nil
	}
	known := e.memory(f.facts)
	reported := f.learns && known.of(f.facts, f.cost)
	if reported && known.answer(f.facts, f.cost, f.sent.mono, f.req.Outcomes.All(), d) {
		f.denied()
		return true, nil
	}
	waits := !f.batch && round == 0
	if f.hold != nil {
		f.op, f.units = f.hold.ask(f.cost)
		waits = !f.batch && round < rounds
	}
	if reported && f.sent.mono >= known.until || f.hold != nil && f.more() {
		if e.flying && waits {
			return false, e.wait()
		}
		f.flies = !e.flying
		e.flying = true
	}
	e.send(&f.first)
	if f.leases {
		f.lease(e)
	}
	return false, nil
}

// inHand decides f from units in hand.
func (f *flight) inHand(e *entry, d *sluice.Decision, round int) (done bool) {
	sh := f.first.shard
	f.hold = sh.hold(e, f.facts, f.sent)
	switch {
	case f.hold == nil && round == 0:
		sh.leases.Untracked++
		return false
	case f.hold == nil:
		return false
	case round == 0:
		f.hold.demand(f.sent, f.cost)
	}
	*d, done = f.hold.take(f.sent, f.cost, f.req.Outcomes.All())
	switch {
	case done && d.Allowed:
		sh.leases.Allowed++
	case done:
		sh.leases.Denied++
	}
	return done
}

// denied counts a denial from memory. Of a slot that goes with the units there is
// nothing to say then.
func (f *flight) denied() {
	f.first.shard.denials.Answered++
	if f.leases {
		f.first.shard.leases.Denied++
	}
	if f.req.Slot != nil {
		f.req.Slot.Decision = sluice.SlotDecision{}
	}
}

// lease makes ready what is asked for units.
func (f *flight) lease(e *entry) {
	sh := f.first.shard
	sh.leases.Asked++
	if f.hold == nil || !f.flies {
		f.op, f.units = sluice.OpTake, f.cost
	}
	f.outcomes = make(sluice.Outcomes, f.facts.plan.Len())
	if f.hold == nil || !f.more() || f.batch {
		return
	}
	if f.spares = f.hold.spares(); len(f.spares) > 0 {
		e.gives(&f.first)
	}
}

// request returns what the store is asked.
func (f *flight) request() *sluice.Request {
	if !f.leases {
		return f.req
	}
	asked := &struct {
		sluice.Request
		outcomes sluice.Outcomes
	}{*f.req, f.outcomes}
	asked.Plan, asked.Op, asked.Cost, asked.Request.Outcomes = f.facts.plan, f.op, f.units, &asked.outcomes
	if asked.Op == sluice.OpReserve {
		asked.MaxWait = time.Duration(f.facts.ttl) * time.Microsecond
	}
	return &asked.Request
}

// errNoAnswer is what a flight lands with if the store panics.
var errNoAnswer = errors.New("remote: the store gave no answer")

// fly asks the store.
func (n *near) fly(ctx context.Context, f *flight) (sluice.Decision, error) {
	r := sluice.Result{Err: errNoAnswer}
	defer func() { n.land(ctx, f, &r) }()
	if len(f.spares) > 0 {
		r.Decision, r.Err = n.askBehind(ctx, f)
	} else {
		r.Decision, r.Err = n.by.ask(ctx, f.request())
	}
	n.end(ctx, f, &r)
	return r.Decision, r.Err
}

// end lands f, once more where its take alone must be asked for: it was denied
// only because more was asked for than it needs.
func (n *near) end(ctx context.Context, f *flight, r *sluice.Result) {
	if !n.land(ctx, f, r) {
		r.Err = errNoAnswer
		r.Decision, r.Err = n.by.ask(ctx, f.request())
		n.land(ctx, f, r)
	}
}

// askBehind asks the store behind what is to be given back. What cannot be given
// back stays counted until it is forgotten.
func (n *near) askBehind(ctx context.Context, f *flight) (sluice.Decision, error) {
	reqs := slices.Concat(f.spares, []sluice.Request{*f.request()})
	out := make([]sluice.Result, len(reqs))
	err := n.by.askBatch(ctx, reqs, out)
	_ = f.first.shard.returned(f.spares, out, err) // the take goes on
	if err != nil {
		return sluice.Decision{}, err
	}
	last := &out[len(f.spares)]
	return last.Decision, last.Err
}

// land takes note of the store's answer to f, and makes of it what it means for
// the take. It reports false if f must be sent again, as it is now.
func (n *near) land(ctx context.Context, f *flight, r *sluice.Result) bool {
	if f.landed || f.first.entry == nil {
		return true
	}
	// Of what was granted in advance nothing is learnt but its units.
	raw := r.Decision
	learns := f.learns && r.Err == nil && (!raw.Allowed || raw.Remaining <= 0 && f.hold == nil) &&
		(f.req.Slot == nil || f.req.Slot.Decision.RetryAfter == 0)
	var heard moment
	if learns || f.leases {
		heard = n.clock()
	}
	sh, e := f.first.shard, f.first.entry
	sh.mu.Lock()
	if f.leases && r.Err == nil && !f.answered(r, heard) {
		f.sent, f.first.epoch, f.first.drops = heard, e.epoch, e.drops
		sh.mu.Unlock()
		return false
	}
	f.landed = true
	reported := sluice.Result{Decision: raw, Err: r.Err}
	if sound := e.back(&f.first, &reported); learns && sound {
		learnt := newDenial(f.facts, f.cost, f.sent.mono, heard.mono, n.age, &raw)
		if f.facts.plan.Len() > 1 {
			learnt.outcomes = f.outcomes
		}
		sh.remember(e, f.facts, &learnt, heard)
	}
	if f.flies {
		e.land(f.shared(ctx, r.Err))
	}
	sh.settle(e)
	sh.mu.Unlock()
	for i := range f.legs {
		f.legs[i].back(&reported)
	}
	return true
}

// answered takes units in hand, and makes of the store's answer the take's. It
// reports false if the take must be asked for again, alone.
func (f *flight) answered(r *sluice.Result, heard moment) bool {
	sh, d, more := f.first.shard, &r.Decision, int64(0) // units for later takes
	if h := f.hold; h != nil {
		granted := *d
		now, known := h.answered(&f.question, heard, granted)
		if f.first.drops != f.first.entry.drops {
			h.drop() // the store may have forgotten them since
		}
		if *d = now; !known {
			sh.leases.Asked++
			f.units = f.cost
			return false
		}
		if extra := granted.Spent - d.Spent; extra > 0 {
			sh.leases.Leased += uint64(extra)
			if d.Allowed {
				more = extra
			}
		}
		if h.key == "" && len(h.grants)+len(h.spare) > 0 {
			h.key = strings.Clone(f.req.Key)
		}
	}
	if out := f.req.Outcomes.All(); len(out) > 0 {
		for i, o := range f.outcomes {
			o.Remaining += more
			out[i] = o
		}
	}
	return true
}

// shared returns what those are reported who wait for f, nil if they shall see for
// themselves: the error of a caller that has left is not for others, and no
// more does one that a take alone has met. Nothing was sent for them, and how a
// request ended of which they know nothing is not theirs to say.
func (f *flight) shared(ctx context.Context, err error) (reported error) {
	if err != nil && f.hold != nil && ctx.Err() == nil {
		reported = notSent(err)
	}
	return reported
}

func notSent(err error) error {
	_, _, why := unwrap(err)
	return &sluice.NotSentError{Err: why}
}
