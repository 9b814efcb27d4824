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
	learns   bool            // the store's answer may be remembered, or is already
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

// prepare fills c for req.
func (n *near) prepare(c *nearCall, req *sluice.Request) (err error) {
	if c.info, err = n.infoOf(req.Plan); err != nil {
		return err
	}
	c.req, c.cost = req, req.Cost
	c.leasable = c.info.leasable(req)
	c.learns = c.info.rememberable(req) || c.leasable && c.info.deniable
	c.first = n.charge(req.Op, c.info, req.Key)
	leased := c.info.leased && !c.leasable
	if len(req.More) > 0 {
		c.others = make([]sentCharge, len(req.More))
	}
	for i := range c.others {
		facts, err := n.infoOf(req.More[i].Plan)
		if err != nil {
			return err
		}
		leased = leased || facts.leased
		c.others[i] = n.charge(req.Op, facts, req.More[i].Key)
	}
	if leased {
		asked := *req
		c.req = &asked
		return n.useLeasedPlans(c.req)
	}
	return nil
}

// rounds is how often a leasable take waits for another call's answer before it asks
// the store itself. Other takes wait once; those of a batch never wait.
const rounds = 2

// begin decides c into d if the process knows enough. Otherwise it returns the call to
// wait for before the next round, or records that c is sent; c must then be finished.
func (n *near) begin(c *nearCall, d *sluice.Decision, round int) (done bool, wait *waiters) {
	if c.req.Op == sluice.OpPeek {
		return c.info.leased && n.peek(c, d), nil
	}
	c.sent = n.clock()
	if done, wait = c.begin(d, round); done || wait != nil {
		return done, wait
	}
	for i := range c.others {
		c.others[i].noteSent()
	}
	return false, nil
}

// peek answers an OpPeek for which there are units in hand.
func (n *near) peek(c *nearCall, d *sluice.Decision) (ok bool) {
	if len(c.req.More) > 0 || c.req.MaxWait > 0 || c.cost == 0 || c.req.Slot != nil {
		return false
	}
	sh := c.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[c.first.key]; e != nil {
		if l := e.leaseOf(c.info); l != nil {
			*d, ok = l.peek(n.clock(), c.cost, c.req.Outcomes.All())
			sh.settle(e)
		}
	}
	return ok
}

// begin is near.begin for the first key; the caller has set c.sent.
func (c *nearCall) begin(d *sluice.Decision, round int) (done bool, wait *waiters) {
	sh := c.first.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entry(c.first.key)
	defer sh.settle(e)
	if c.leasable && c.decideInHand(e, d, round) {
		return true, nil
	}
	known := e.denialUnder(c.info)
	reported := c.learns && known.covers(c.info, c.cost)
	if reported && known.answer(c.info, c.cost, c.sent.mono, c.req.Outcomes.All(), d) {
		c.denied()
		return true, nil
	}
	waits := !c.batch && round == 0
	if c.lease != nil {
		c.op, c.units = c.lease.ask(c.cost)
		waits = !c.batch && round < rounds
	}
	if reported && c.sent.mono >= known.until || c.lease != nil && c.more() {
		if e.hasLeader && waits {
			return false, e.wait()
		}
		c.leads = !e.hasLeader
		e.hasLeader = true
	}
	e.noteSent(&c.first)
	if c.leasable {
		c.prepareLease(e)
	}
	return false, nil
}

// decideInHand decides c from units in hand.
func (c *nearCall) decideInHand(e *entry, d *sluice.Decision, round int) (done bool) {
	sh := c.first.shard
	c.lease = sh.lease(e, c.info, c.sent)
	switch {
	case c.lease == nil && round == 0:
		sh.leases.Untracked++
		return false
	case c.lease == nil:
		return false
	case round == 0:
		c.lease.demand(c.sent, c.cost)
	}
	*d, done = c.lease.take(c.sent, c.cost, c.req.Outcomes.All())
	switch {
	case done && d.Allowed:
		sh.leases.Allowed++
	case done:
		sh.leases.Denied++
	}
	return done
}

// denied counts a denial from memory, and clears the decision on the slot of the request.
func (c *nearCall) denied() {
	c.first.shard.denials.Answered++
	if c.leasable {
		c.first.shard.leases.Denied++
	}
	if c.req.Slot != nil {
		c.req.Slot.Decision = sluice.SlotDecision{}
	}
}

// prepareLease prepares the question that leases units.
func (c *nearCall) prepareLease(e *entry) {
	sh := c.first.shard
	sh.leases.Asked++
	if c.lease == nil || !c.leads {
		c.op, c.units = sluice.OpTake, c.cost
	}
	c.outcomes = make(sluice.Outcomes, c.info.plan.Len())
	if c.lease == nil || !c.more() || c.batch {
		return
	}
	if c.refunds = c.lease.takeRefunds(); len(c.refunds) > 0 {
		e.noteRefund(&c.first)
	}
}

// request returns the request for the store.
func (c *nearCall) request() *sluice.Request {
	if !c.leasable {
		return c.req
	}
	asked := &struct {
		sluice.Request
		outcomes sluice.Outcomes
	}{*c.req, c.outcomes}
	asked.Plan, asked.Op, asked.Cost, asked.Request.Outcomes = c.info.plan, c.op, c.units, &asked.outcomes
	if asked.Op == sluice.OpReserve {
		asked.MaxWait = time.Duration(c.info.ttl) * time.Microsecond
	}
	return &asked.Request
}

// errNoAnswer is the error of a call whose store panicked.
var errNoAnswer = errors.New("remote: the store gave no answer")

// send asks the store.
func (n *near) send(ctx context.Context, c *nearCall) (sluice.Decision, error) {
	r := sluice.Result{Err: errNoAnswer}
	defer func() { n.finish(ctx, c, &r) }()
	if len(c.refunds) > 0 {
		r.Decision, r.Err = n.askBehind(ctx, c)
	} else {
		r.Decision, r.Err = n.store.ask(ctx, c.request())
	}
	n.finishOrResend(ctx, c, &r)
	return r.Decision, r.Err
}

// finishOrResend finishes c. If the store denied c only because c asked for more units
// than its take needs, it first asks again for these alone.
func (n *near) finishOrResend(ctx context.Context, c *nearCall, r *sluice.Result) {
	if !n.finish(ctx, c, r) {
		r.Err = errNoAnswer
		r.Decision, r.Err = n.store.ask(ctx, c.request())
		n.finish(ctx, c, r)
	}
}

// askBehind sends c's refunds and then its question, in one batch. Units that cannot be
// refunded stay counted until they expire.
func (n *near) askBehind(ctx context.Context, c *nearCall) (sluice.Decision, error) {
	reqs := slices.Concat(c.refunds, []sluice.Request{*c.request()})
	out := make([]sluice.Result, len(reqs))
	err := n.store.askBatch(ctx, reqs, out)
	_ = c.first.shard.returned(c.refunds, out, err) // the take follows in any case
	if err != nil {
		return sluice.Decision{}, err
	}
	last := &out[len(c.refunds)]
	return last.Decision, last.Err
}

// finish records the store's answer to c and turns it into the take's. It reports false if c,
// which it has changed, must be sent again.
func (n *near) finish(ctx context.Context, c *nearCall, r *sluice.Result) bool {
	if c.finished || c.first.entry == nil {
		return true
	}
	// A grant in advance gives no information about denials.
	raw := r.Decision
	learns := c.learns && r.Err == nil && (!raw.Allowed || raw.Remaining <= 0 && c.lease == nil) &&
		(c.req.Slot == nil || c.req.Slot.Decision.RetryAfter == 0)
	var heard moment
	if learns || c.leasable {
		heard = n.clock()
	}
	sh, e := c.first.shard, c.first.entry
	sh.mu.Lock()
	if c.leasable && r.Err == nil && !c.applyAnswer(r, heard) {
		c.sent, c.first.epoch, c.first.drops = heard, e.epoch, e.drops
		sh.mu.Unlock()
		return false
	}
	c.finished = true
	reported := sluice.Result{Decision: raw, Err: r.Err}
	if sound := e.noteAnswer(&c.first, &reported); learns && sound {
		learnt := newDenial(c.info, c.cost, c.sent.mono, heard.mono, n.age, &raw)
		if c.info.plan.Len() > 1 {
			learnt.outcomes = c.outcomes
		}
		sh.remember(e, c.info, &learnt, heard)
	}
	if c.leads {
		e.releaseWaiters(c.errorForWaiters(ctx, r.Err))
	}
	sh.settle(e)
	sh.mu.Unlock()
	for i := range c.others {
		c.others[i].noteAnswer(&reported)
	}
	return true
}

// applyAnswer keeps the units that the store granted and turns its answer into the
// take's. It reports false if the take must be asked for again, without more units.
func (c *nearCall) applyAnswer(r *sluice.Result, heard moment) bool {
	sh, d, more := c.first.shard, &r.Decision, int64(0) // units for later takes
	if l := c.lease; l != nil {
		granted := *d
		now, known := l.applyAnswer(&c.question, heard, granted)
		if c.first.drops != c.first.entry.drops {
			l.dropUnits() // a reset meanwhile may have ended them
		}
		if *d = now; !known {
			sh.leases.Asked++
			c.units = c.cost
			return false
		}
		if extra := granted.Spent - d.Spent; extra > 0 {
			sh.leases.Leased += uint64(extra)
			if d.Allowed {
				more = extra
			}
		}
		if l.key == "" && len(l.grants)+len(l.refunds) > 0 {
			l.key = strings.Clone(c.req.Key)
		}
	}
	if out := c.req.Outcomes.All(); len(out) > 0 {
		for i, o := range c.outcomes {
			o.Remaining += more
			out[i] = o
		}
	}
	return true
}

// errorForWaiters returns the error for the callers waiting on c; nil means that they
// must ask themselves. They get neither the error of a caller that has left nor that of
// a take without a lease. Nothing was sent for them, so it is a [*sluice.NotSentError].
func (c *nearCall) errorForWaiters(ctx context.Context, err error) (reported error) {
	if err != nil && c.lease != nil && ctx.Err() == nil {
		reported = notSent(err)
	}
	return reported
}

func notSent(err error) error {
	_, _, why := unwrap(err)
	return &sluice.NotSentError{Err: why}
}
