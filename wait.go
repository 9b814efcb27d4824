// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/instants"
)

// mostFree is how many free instants a Limiter keeps, and so how many it gives back at
// once.
const mostFree = 1000

// receipt is the charge for an instant that a caller of Wait has reserved.
type receipt struct {
	key      string
	cost     int64
	decision Decision
	asked    time.Time
}

type waiter = instants.Waiter[string, receipt]

// lines are the queues of the callers that wait for a plan's limits.
type lines = instants.Registry[string, receipt]

// overdue gives back free instants that are due. It drops the error, as no caller has
// caused it: see Wait.
func (l *Limiter) overdue(back []receipt) { _ = l.giveBack(context.Background(), back) }

// giveBack cancels the charges for instants. It continues after ctx ends, for a second at
// most.
func (l *Limiter) giveBack(ctx context.Context, back []receipt) error {
	if len(back) == 0 {
		return nil
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	out := make([]Result, len(back))
	errs := []error{TakeBatch(ctx, l.store, refunds(l.plan, back), out)}
	for i := range out {
		errs = append(errs, out[i].Err)
	}
	return errors.Join(errs...)
}

// refunds returns the requests that cancel the charges for instants, with room for one
// more.
func refunds(plan *Plan, back []receipt) []Request {
	reqs := make([]Request, len(back), len(back)+1)
	for i := range back {
		r := &back[i]
		charge := Charge{Plan: plan, Key: r.key, Cost: r.cost}
		reqs[i] = Request{Op: OpRefund, Charge: charge, At: r.decision.At, Due: r.decision.Due}
	}
	return reqs
}

// askAfter cancels the charges for instants and decides a request, in one call if the store
// can. It ignores an instant that could not be cancelled: its units stay spent.
func (l *Limiter) askAfter(ctx context.Context, back []receipt, req Request) (Decision, error) {
	if len(back) == 0 {
		return l.store.Take(ctx, req)
	}
	reqs := append(refunds(l.plan, back), req)
	out := make([]Result, len(reqs))
	if err := TakeBatch(ctx, l.store, reqs, out); err != nil {
		return Decision{}, err
	}
	last := &out[len(back)]
	return last.Decision, last.Err
}

// Wait blocks until cost units of key are spent. It returns a [*DeniedError] at once if
// that would be after ctx's deadline, or after [MaxWait] if ctx has none. It asks the store
// at most once. Callers that wait for the same cost of a key are served in order.
//
// If ctx ends first, nothing is spent, the error is ctx's, and the callers behind with the
// same cost move up. The instant that becomes free goes to the next caller with the same
// cost, without a call to the store. If none comes until it is due, or before a caller
// with another cost, the Limiter refunds it to the store within a second and drops an
// error of the store: the units stay spent then, and only a Store that wraps the store sees
// the error. If nobody waits any more, or more than a thousand instants are free, or ctx
// ends at the instant itself, Wait refunds it at once and joins the store's error to ctx's.
//
// A free instant stays spent for [Limiter.Take] until it is refunded: under 2/10s, after 12
// callers have waited and left, a Take is denied for a minute, and a Wait gets the first
// of their instants. So use Wait and not Take for a key that others wait for.
//
// Deadlines and delays follow the time package, whatever the store's clock. In a bubble of
// testing/synctest both are virtual. With another clock, such as memstore.Options.Now, the
// store computes the delay by that clock and Wait blocks for it in the time of the time
// package: a test with such a clock calls [Limiter.Reserve] and sets its clock.
//
// The Decision is the one that reserved the units: Delay is how long the caller waited,
// ResetAfter counts from the end of the wait, and At and Due are that instant.
func (l *Limiter) Wait(ctx context.Context, key string, cost int64) (Decision, error) {
	maxWait := MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = max(min(time.Until(deadline), MaxWait), 0)
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	began := time.Now()
	w, d, err := l.enter(ctx, l.Of(key, cost), began.Add(maxWait), maxWait)
	if w == nil {
		return d, err
	}
	select {
	case <-w.Come():
		return came(w.Instant(), began), nil
	case <-ctx.Done():
		if err := l.leave(ctx, w, l.Of(key, cost)); err != nil {
			return d, errors.Join(ctx.Err(), err)
		}
		return d, ctx.Err()
	}
}

// enter queues a caller for a free instant, else for one that it reserves. It returns no
// waiter if the caller need not wait, or may not.
func (l *Limiter) enter(ctx context.Context, c Charge, by time.Time, maxWait time.Duration) (*waiter, Decision, error) {
	line, back := same(c), []receipt(nil)
	if l.lines.Free() > 0 {
		w, at, others := l.lines.Claim(line, by)
		if w != nil {
			return w, at.Receipt.decision, nil
		}
		back = others
	}
	d, err := l.askAfter(ctx, back, Request{Op: OpReserve, Charge: c, MaxWait: maxWait})
	switch {
	case err != nil:
		return nil, d, err
	case !d.Allowed:
		return nil, d, &DeniedError{Limit: l.plan.terms[d.Binding].Limit, Decision: d}
	case d.Delay <= 0:
		return nil, d, nil
	case c.Cost == 0:
		line = nil // it has no units that another caller could use
	}
	now := time.Now()
	at := instants.Instant[receipt]{Due: now.Add(d.Delay), Receipt: receipt{c.Key, c.Cost, d, now}}
	return l.lines.Enter(line, at), d, nil
}

// leave takes a caller out of the queue. If nobody waits for the same charge any more, it
// refunds the last reserved instant at once, so that a single caller leaves nothing
// behind.
func (l *Limiter) leave(ctx context.Context, w *waiter, c Charge) error {
	back, ok := w.Leave()
	if !ok {
		back = []receipt{w.Instant().Receipt}
	}
	if c.Cost == 0 {
		return nil
	}
	if last, ok := l.lines.Last(same(c)); ok {
		back = append(back, last)
	}
	return l.giveBack(ctx, back)
}

// same returns the queue of the callers with the same charge.
func same(c Charge) []instants.Charge[string] {
	return []instants.Charge[string]{{Key: c.Key, Cost: c.Cost}}
}

// came returns the decision of a caller that has waited for an instant since began.
func came(at instants.Instant[receipt], began time.Time) Decision {
	r := &at.Receipt
	d := r.decision
	d.ResetAfter = max(d.ResetAfter-at.Due.Sub(r.asked), 0)
	d.Delay = max(at.Due.Sub(began), 0)
	return d
}

// Await blocks for the Delay of a decision on req. If ctx ends first, it refunds the units,
// so that the caller's place in the queue is free again, and returns ctx's error, joined
// with the store's if the refund failed.
func Await(ctx context.Context, store Store, req Request, d Decision) error {
	if d.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	}
	undo, ok := req.Undo(d)
	if !ok {
		return ctx.Err()
	}
	within, cancel := bounds.Undo(ctx)
	defer cancel()
	if _, err := store.Take(within, undo); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}

// Undo returns the request that refunds everything d has spent for r, or forgets the hold that
// it has opened. It is not ok if there is nothing to refund: d is a denial, or r is no take. The
// units that OpTakeUpTo got beside a first charge of cost 0 are not known, and stay spent.
func (r *Request) Undo(d Decision) (undo Request, ok bool) {
	switch {
	case !d.Allowed:
		return Request{}, false
	case r.Hold != nil:
		return r.forgetHold(&d), r.Op == OpTake
	case d.Spent <= 0 && len(r.More) == 0:
		return Request{}, false
	}
	undo = Request{Op: OpRefund, Charge: r.Charge, More: r.More, At: d.At, Due: d.Due}
	switch r.Op {
	case OpTake, OpReserve:
		return undo, true
	case OpTakeUpTo:
		// Every charge of a cost got as many units as the first.
		undo.Cost, undo.More = d.Spent, slices.Clone(r.More)
		for i := range undo.More {
			undo.More[i].Cost = min(undo.More[i].Cost, d.Spent)
		}
		return undo, d.Spent > 0
	default: // OpCharge records units already used, the others spend nothing
		return Request{}, false
	}
}
