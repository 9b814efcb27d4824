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

// nearCall is a request that near answers, or passes on to the store.
type nearCall struct {
	question
	req      *sluice.Request // for the store, unless units are leased
	info     *planInfo       // of the first charge
	learns   bool            // the store's answer may be remembered, or known already
	leasable bool            // units in hand can decide it
	leads    bool            // others wait for its answer
	finished bool

	lease   *lease           // of a leasable call, unless there is no room
	refunds []sluice.Request // sent before it, in the same batch

	first  sentCharge
	others []sentCharge // all other charges
	batch  bool         // it is one of a batch
	index  int          // in the batch
}

// prepare fills f for req.
func (n *near) prepare(f *nearCall, req *sluice.Request) (err error) {
	if f.info, err = n.infoOf(req.Plan); err != nil {
		return err
	}
	f.req, f.cost = req, req.Cost
	f.leasable = f.info.leasable(req)
	f.learns = f.info.rememberable(req) || f.leasable && f.info.deniable
	f.first = n.charge(req.Op, f.info, req.Key)
	leased := f.info.leased && !f.leasable
	if len(req.More) > 0 {
		f.others = make([]sentCharge, len(req.More))
	}
	for i := range f.others {
		facts, err := n.infoOf(req.More[i].Plan)
		if err != nil {
			return err
		}
		leased = leased || facts.leased
		f.others[i] = n.charge(req.Op, facts, req.More[i].Key)
	}
	if leased {
		asked := *req
		f.req = &asked
		return n.useLeasedPlans(f.req)
	}
	return nil
}

// rounds is how often a leasable take waits for another call's answer before it asks
// the store itself. Other takes wait once; those of a batch never wait.
const rounds = 2

// begin decides f into d if the process knows enough. Otherwise it returns the call to
// wait for before the next round, or records that f is sent; f must then be finished.
func (n *near) begin(f *nearCall, d *sluice.Decision, round int) (done bool, wait *waiters) {
	if f.req.Op == sluice.OpPeek {
		return f.info.leased && n.peek(f, d), nil
	}
	f.sent = n.clock()
	if done, wait = f.begin(d, round); done || wait != nil {
		return done, wait
	}
	for i := range f.others {
		f.others[i].noteSent()
	}
	return false, nil
}

// peek answers an OpPeek for which there are units in hand.
func (n *near) peek(f *nearCall, d *sluice.Decision) (ok bool) {
	if len(f.req.More) > 0 || f.req.MaxWait > 0 || f.cost == 0 || f.req.Slot != nil {
		return false
	}
	sh := f.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[f.first.key]; e != nil {
		if h := e.leaseOf(f.info); h != nil {
			*d, ok = h.peek(n.clock(), f.cost, f.req.Outcomes.All())
			sh.settle(e)
		}
	}
	return ok
}

// begin is near.begin for the first key; the caller has set f.sent.
func (f *nearCall) begin(d *sluice.Decision, round int) (done bool, wait *waiters) {
	sh := f.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entry(f.first.key)
	defer sh.settle(e)
	if f.leasable && f.decideInHand(e, d, round) {
		return true, nil
	}
	known := e.denialUnder(f.info)
	reported := f.learns && known.covers(f.info, f.cost)
	if reported && known.answer(f.info, f.cost, f.sent.mono, f.req.Outcomes.All(), d) {
		f.denied()
		return true, nil
	}
	waits := !f.batch && round == 0
	if f.lease != nil {
		f.op, f.units = f.lease.ask(f.cost)
		waits = !f.batch && round < rounds
	}
	if reported && f.sent.mono >= known.until || f.lease != nil && f.more() {
		if e.hasLeader && waits {
			return false, e.wait()
		}
		f.leads = !e.hasLeader
		e.hasLeader = true
	}
	e.noteSent(&f.first)
	if f.leasable {
		f.prepareLease(e)
	}
	return false, nil
}

// decideInHand decides f from units in hand.
func (f *nearCall) decideInHand(e *entry, d *sluice.Decision, round int) (done bool) {
	sh := f.first.shard
	f.lease = sh.lease(e, f.info, f.sent)
	switch {
	case f.lease == nil && round == 0:
		sh.leases.Untracked++
		return false
	case f.lease == nil:
		return false
	case round == 0:
		f.lease.demand(f.sent, f.cost)
	}
	*d, done = f.lease.take(f.sent, f.cost, f.req.Outcomes.All())
	switch {
	case done && d.Allowed:
		sh.leases.Allowed++
	case done:
		sh.leases.Denied++
	}
	return done
}

// denied counts a denial from memory, and clears the decision about the slot that was
// asked for beside the units.
func (f *nearCall) denied() {
	f.first.shard.denials.Answered++
	if f.leasable {
		f.first.shard.leases.Denied++
	}
	if f.req.Slot != nil {
		f.req.Slot.Decision = sluice.SlotDecision{}
	}
}

// prepareLease prepares the question that leases units.
func (f *nearCall) prepareLease(e *entry) {
	sh := f.first.shard
	sh.leases.Asked++
	if f.lease == nil || !f.leads {
		f.op, f.units = sluice.OpTake, f.cost
	}
	f.outcomes = make(sluice.Outcomes, f.info.plan.Len())
	if f.lease == nil || !f.more() || f.batch {
		return
	}
	if f.refunds = f.lease.takeRefunds(); len(f.refunds) > 0 {
		e.noteRefund(&f.first)
	}
}

// request returns the request for the store.
func (f *nearCall) request() *sluice.Request {
	if !f.leasable {
		return f.req
	}
	asked := &struct {
		sluice.Request
		outcomes sluice.Outcomes
	}{*f.req, f.outcomes}
	asked.Plan, asked.Op, asked.Cost, asked.Request.Outcomes = f.info.plan, f.op, f.units, &asked.outcomes
	if asked.Op == sluice.OpReserve {
		asked.MaxWait = time.Duration(f.info.ttl) * time.Microsecond
	}
	return &asked.Request
}

// errNoAnswer is the error of a call whose store panicked.
var errNoAnswer = errors.New("remote: the store gave no answer")

// send asks the store.
func (n *near) send(ctx context.Context, f *nearCall) (sluice.Decision, error) {
	r := sluice.Result{Err: errNoAnswer}
	defer func() { n.finish(ctx, f, &r) }()
	if len(f.refunds) > 0 {
		r.Decision, r.Err = n.askBehind(ctx, f)
	} else {
		r.Decision, r.Err = n.store.ask(ctx, f.request())
	}
	n.finishOrResend(ctx, f, &r)
	return r.Decision, r.Err
}

// finishOrResend finishes f. If the store denied f only because f asked for more units
// than its take needs, it first asks again for these alone.
func (n *near) finishOrResend(ctx context.Context, f *nearCall, r *sluice.Result) {
	if !n.finish(ctx, f, r) {
		r.Err = errNoAnswer
		r.Decision, r.Err = n.store.ask(ctx, f.request())
		n.finish(ctx, f, r)
	}
}

// askBehind sends f's refunds and then its question, in one batch. Units that cannot be
// refunded stay counted until the key's state has run off.
func (n *near) askBehind(ctx context.Context, f *nearCall) (sluice.Decision, error) {
	reqs := slices.Concat(f.refunds, []sluice.Request{*f.request()})
	out := make([]sluice.Result, len(reqs))
	err := n.store.askBatch(ctx, reqs, out)
	_ = f.first.shard.returned(f.refunds, out, err) // the take goes on
	if err != nil {
		return sluice.Decision{}, err
	}
	last := &out[len(f.refunds)]
	return last.Decision, last.Err
}

// finish records the store's answer to f and turns it into the take's. It reports false
// if f must be sent again, as it is now.
func (n *near) finish(ctx context.Context, f *nearCall, r *sluice.Result) bool {
	if f.finished || f.first.entry == nil {
		return true
	}
	// A grant in advance says nothing about denials.
	raw := r.Decision
	learns := f.learns && r.Err == nil && (!raw.Allowed || raw.Remaining <= 0 && f.lease == nil) &&
		(f.req.Slot == nil || f.req.Slot.Decision.RetryAfter == 0)
	var heard moment
	if learns || f.leasable {
		heard = n.clock()
	}
	sh, e := f.first.shard, f.first.entry
	sh.mu.Lock()
	if f.leasable && r.Err == nil && !f.applyAnswer(r, heard) {
		f.sent, f.first.epoch, f.first.drops = heard, e.epoch, e.drops
		sh.mu.Unlock()
		return false
	}
	f.finished = true
	reported := sluice.Result{Decision: raw, Err: r.Err}
	if sound := e.noteAnswer(&f.first, &reported); learns && sound {
		learnt := newDenial(f.info, f.cost, f.sent.mono, heard.mono, n.age, &raw)
		if f.info.plan.Len() > 1 {
			learnt.outcomes = f.outcomes
		}
		sh.remember(e, f.info, &learnt, heard)
	}
	if f.leads {
		e.releaseWaiters(f.errorForWaiters(ctx, r.Err))
	}
	sh.settle(e)
	sh.mu.Unlock()
	for i := range f.others {
		f.others[i].noteAnswer(&reported)
	}
	return true
}

// applyAnswer keeps the units that the store granted and turns its answer into the
// take's. It reports false if the take must be asked for again, without more units.
func (f *nearCall) applyAnswer(r *sluice.Result, heard moment) bool {
	sh, d, more := f.first.shard, &r.Decision, int64(0) // units for later takes
	if h := f.lease; h != nil {
		granted := *d
		now, known := h.applyAnswer(&f.question, heard, granted)
		if f.first.drops != f.first.entry.drops {
			h.dropUnits() // a reset meanwhile may have ended them
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
		if h.key == "" && len(h.grants)+len(h.refunds) > 0 {
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

// errorForWaiters returns the error for the callers waiting on f; nil means that they
// must ask themselves. They get neither the error of a caller that has left nor that of
// a take without a lease. Nothing was sent for them, so it is a [*sluice.NotSentError].
func (f *nearCall) errorForWaiters(ctx context.Context, err error) (reported error) {
	if err != nil && f.lease != nil && ctx.Err() == nil {
		reported = notSent(err)
	}
	return reported
}

func notSent(err error) error {
	_, _, why := unwrap(err)
	return &sluice.NotSentError{Err: why}
}
