// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/instants"
)

// mostFree is how many instants a Limiter keeps that nobody waits for: as many are
// given back at once at most.
const mostFree = 1000

// receipt is what was charged for an instant that a caller of Wait was reserved.
type receipt struct {
	key      string
	cost     int64
	decision Decision
	asked    time.Time
}

type waiter = instants.Waiter[string, receipt]

// lines are the waiters for the limits of a plan.
type lines = instants.Registry[string, receipt]

// overdue gives back what is due and nobody waits for. Nobody is there to report to an
// error: see Wait.
func (l *Limiter) overdue(back []receipt) { _ = l.giveBack(context.Background(), back) }

// giveBack cancels what was charged for instants. It goes on when ctx ends, for a
// second at most.
func (l *Limiter) giveBack(ctx context.Context, back []receipt) error {
	if len(back) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	out := make([]Result, len(back))
	errs := []error{TakeBatch(ctx, l.store, refunds(l.plan, back), out)}
	for i := range out {
		errs = append(errs, out[i].Err)
	}
	return errors.Join(errs...)
}

// refunds returns the requests that cancel what was charged for instants, with
// room for another.
func refunds(plan *Plan, back []receipt) []Request {
	reqs := make([]Request, len(back), len(back)+1)
	for i := range back {
		r := &back[i]
		charge := Charge{Plan: plan, Key: r.key, Cost: r.cost}
		reqs[i] = Request{Op: OpRefund, Charge: charge, At: r.decision.At, Due: r.decision.Due}
	}
	return reqs
}

// askAfter has the store cancel what was charged for instants and decide a request,
// in one call if it can. That an instant could not be cancelled is no error of the
// request: the store errs on the side of the limit.
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

// Wait blocks until cost units of key are spent. It returns a [*DeniedError]
// at once if they cannot be before ctx's deadline, or within [MaxWait] where
// ctx has none. It asks the store once at most, whatever the wait, and the callers
// that wait for the same cost of a key are served in their order.
//
// If ctx ends meanwhile nothing is spent, the error is ctx's, and those behind with
// the same cost move up. The instant that is left then goes to the next waiter for
// the same, without a call to the store. If nobody has come when it is due, or if one
// comes before a waiter for another cost, it is given back to the store, within a
// second. An error of that is reported to nobody, as no present waiter has caused
// it: the units count as spent then, and a Store that wraps another sees it. Where
// nobody waits any more, the last instant is given back at once, and so is one too many
// of a thousand, or of a caller whose ctx ends as it may go on: then the error is
// joined by the store's.
//
// An instant that is left stays spent for [Limiter.Take] until it is given back: under
// 2/10s, a Take after 12 callers that have waited and left is denied for a minute, and a
// Wait goes on at the first of their instants. So use Wait, and not Take, for a key that
// others wait for.
//
// Deadlines and delays are of the time package, whatever clock the store goes by. In a
// bubble of testing/synctest, where the store's default clock is virtual too, it takes no
// real time. A store under a clock of its own, such as that of memstore.Options.Now,
// computes the delay by that clock, and Wait still blocks for as long in the time of the
// time package: a test with such a clock calls [Limiter.Reserve] and sets its clock.
//
// The Decision is the one by which the store reserved the units: Delay is how long
// the caller was delayed, ResetAfter counts from when it went on, and At and Due are
// of the instant at which it did.
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

// enter makes a caller wait for an instant that others have left, or else for one
// that it is reserved. There is no waiter if it need not wait, or may not.
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
		line = nil // it is charged nothing that another could use
	}
	now := time.Now()
	at := instants.Instant[receipt]{Due: now.Add(d.Delay), Receipt: receipt{c.Key, c.Cost, d, now}}
	return l.lines.Enter(line, at), d, nil
}

// leave makes a caller wait no longer. Once nobody waits with it, the instant that the
// store reserved last is given back at once, so that a lone one leaves nothing behind.
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

// same is the line of the waiters for the same.
func same(c Charge) []instants.Charge[string] {
	return []instants.Charge[string]{{Key: c.Key, Cost: c.Cost}}
}

// came returns the decision on a caller that has waited since began for an instant.
func came(at instants.Instant[receipt], began time.Time) Decision {
	r := &at.Receipt
	d := r.decision
	d.ResetAfter = max(d.ResetAfter-at.Due.Sub(r.asked), 0)
	d.Delay = max(at.Due.Sub(began), 0)
	return d
}

// undoTimeout bounds the refund of a caller that is gone.
const undoTimeout = time.Second

// Await blocks for the Delay of a decision on req. If ctx ends before, what the
// decision spent is given back to the store, so that the caller's place in the
// queue does not stay taken. The error is ctx's then, joined by the store's if
// that could not take the units back.
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
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if _, err := store.Take(within, undo); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}

// Undo returns the request that gives back all that d has spent for r. It is
// not ok if there is nothing to give back: d is a denial, or r no take. What
// OpTakeUpTo got for a first charge of cost 0 is not known, and stays spent.
func (r *Request) Undo(d Decision) (undo Request, ok bool) {
	if !d.Allowed || d.Spent <= 0 && len(r.More) == 0 {
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
	default: // OpCharge spends what has been used already, the others nothing
		return Request{}, false
	}
}
