// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/instants"
	"github.com/sluicegate/sluice/policy"
)

// spot identifies a key of a store in which units are reserved.
type spot struct {
	store any
	scope uint64
	key   string
}

// receipt is the charge of a delayed request.
type receipt struct {
	evaluator *Evaluator
	undo      sluice.Request
	decision  sluice.Decision
	outcomes  []sluice.Outcome // of several limits
	asked     time.Time
}

type waiter = instants.Waiter[spot, receipt]

// line returns the charges of an ask in the form in which requests are compared.
func (v *Verdict) line(k *ask) []instants.Charge[spot] {
	v.spots = v.spots[:0]
	for j := k.first; j < k.first+k.n; j++ {
		c := &v.charges[j].Charge
		v.spots = append(v.spots, instants.Charge[spot]{Key: v.spot(c), Plan: c.Plan.ID, Cost: c.Cost})
	}
	return v.spots
}

// claims reports whether instants that other requests have left may be for the keys of the
// request.
func (v *Verdict) claims(k *ask) bool {
	return v.evaluator.opts.Queue != nil && v.evaluator.opts.Queue.instants.Free() != 0 && !v.peek && k.role == taken
}

// claim makes the request wait for an instant that another request has left, rather than call
// the store. If there is none, it first gives back the units of its keys that other requests
// have left. It reports whether the request waits.
func (v *Verdict) claim(ctx context.Context, k *ask) bool {
	q, now := v.evaluator.opts.Queue, v.now()
	by := v.until(k, now)
	if !by.IsZero() && !v.queued {
		return false // the store decides first whether it must wait at all
	}
	w, at, others := q.instants.Claim(v.line(k), by)
	if w == nil {
		giveBack(ctx, v.attributes, others)
		return false
	}
	v.await(w)
	v.adopt(k, &at.Receipt, now)
	k.result.Decision.Delay = max(at.Due.Sub(now), time.Microsecond)
	return true
}

// until returns the latest instant at which a delay may end, zero if the request may not wait.
func (v *Verdict) until(k *ask, now time.Time) time.Time {
	op, wait, queues := v.wait(k)
	switch {
	case v.joint || op == sluice.OpTake && !queues:
		return time.Time{}
	case wait == 0:
		wait = sluice.MaxWait
	}
	return now.Add(wait)
}

// adopt sets the result of an ask to another request's decision for the same charges.
func (v *Verdict) adopt(k *ask, r *receipt, now time.Time) {
	age := now.Sub(r.asked)
	k.result = sluice.Result{Decision: r.decision}
	d := &k.result.Decision
	d.ResetAfter = max(d.ResetAfter-age, 0)
	v.fill(k)
	if k.terms > 1 {
		outcomes := v.outcomes[k.outcomes : k.outcomes+k.terms]
		copy(outcomes, r.outcomes)
		for i := range outcomes {
			outcomes[i].ResetAfter = max(outcomes[i].ResetAfter-age, 0)
		}
	}
}

// enter makes the request wait for its reserved instant, or for an earlier one that was
// left, unless it waits already.
func (v *Verdict) enter() error {
	if v.waiter != nil {
		return nil
	}
	q, k, now := v.evaluator.opts.Queue, &v.asks[0], v.now()
	if err := v.queueFor(k); err != nil {
		q.refuse(err)
		return err
	}
	r := receipt{evaluator: v.evaluator, decision: k.result.Decision, asked: now}
	var line []instants.Charge[spot]
	if k.role == taken && k.result.Err == nil { // otherwise the request has no charge that another could use
		line, r.undo = v.line(k), v.refund(k)
		r.undo.More = slices.Clone(r.undo.More)
		if k.terms > 1 {
			r.outcomes = slices.Clone(v.outcomes[k.outcomes : k.outcomes+k.terms])
		}
	}
	v.await(q.instants.Enter(line, instants.Instant[receipt]{Due: now.Add(v.Decision.Delay), Receipt: r}))
	return nil
}

// come makes the instant that a request has waited for, since began, its receipt.
func (v *Verdict) come(began time.Time) {
	at := v.waiter.Instant()
	v.waiter = nil
	v.leaveQueue()
	was := v.Decision.Delay
	k, d := &v.asks[0], &v.Decision
	for _, d := range []*sluice.Decision{&k.result.Decision, d} {
		d.At, d.Due = at.Receipt.decision.At, at.Receipt.decision.Due
		d.Delay = min(max(at.Due.Sub(began), 0), was) // the old delay less the time of the store's call
	}
	d.ResetAfter = max(d.ResetAfter-d.Delay, 0)
}

// vacate leaves the instant that the request waits for to the next request. It reports
// whether the request waited: then its ask has nothing to give back.
func (v *Verdict) vacate(ctx context.Context) bool {
	w := v.waiter
	if w == nil {
		return false
	}
	v.waiter, v.asks[0].left = nil, true
	v.leaveQueue()
	back, ok := w.Leave()
	if !ok {
		back = []receipt{w.Instant().Receipt}
	}
	giveBack(ctx, v.attributes, back)
	return true
}

// charge has the store charge units whether they fit or not. Units of the same keys that other
// requests have left are given back first, as they would take room from units that count.
func (v *Verdict) charge(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	v.clear(ctx, &req)
	return v.evaluator.opts.Store.Take(ctx, req)
}

// clear gives back, within ctx, the units of a request's keys that other requests have left.
func (v *Verdict) clear(ctx context.Context, req *sluice.Request) {
	if v.evaluator.opts.Queue == nil || v.evaluator.opts.Queue.instants.Free() == 0 {
		return
	}
	line := make([]instants.Charge[spot], 0, req.Charges())
	for i := range req.Charges() {
		c := req.Nth(i)
		line = append(line, instants.Charge[spot]{Key: v.spot(c), Plan: c.Plan.ID, Cost: c.Cost})
	}
	_, _, others := v.evaluator.opts.Queue.instants.Claim(line, time.Time{})
	undo(ctx, v.attributes, others)
}

// spot returns the key of a charge.
func (v *Verdict) spot(c *sluice.Charge) spot {
	return spot{store: v.evaluator.identity, scope: c.Plan.ScopeID, key: c.Key}
}

// mostGivenBack is the number of receipts that one store call gives back.
const mostGivenBack = 256

// giveBack is undo that continues for a second at most when ctx ends.
func giveBack(ctx context.Context, a policy.Attributes, list []receipt) {
	if len(list) == 0 {
		return
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	undo(ctx, a, list)
}

// undo gives back the charges of instants of one store. An instant without a charge is alone
// in its list. Errors are reported by the first evaluator.
func undo(ctx context.Context, a policy.Attributes, list []receipt) {
	if len(list) == 0 || list[0].undo.Plan == nil {
		return
	}
	e := list[0].evaluator
	for some := range slices.Chunk(list, mostGivenBack) {
		reqs, out := make([]sluice.Request, len(some)), make([]sluice.Result, len(some))
		for i := range some {
			reqs[i] = some[i].undo
		}
		errs := []error{sluice.TakeBatch(ctx, e.opts.Store, reqs, out)}
		for i := range out {
			errs = append(errs, out[i].Err)
		}
		e.Report(ctx, a, errors.Join(errs...))
	}
}
