// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/policy"
)

// Call is a request that an [Evaluator] decides, and its outcome. The zero Call is ready for
// [Evaluator.Decide]. A used Call may be used again and keeps its memory. It belongs to one
// goroutine at a time.
type Call struct {
	Event
	// Peek makes Decide charge, delay and report nothing, whoever the client is.
	Peek bool
	// Cost, if not nil, is the cost of the request in units under each rule, in place of the
	// rule's Cost: 0 to sluice.MaxQuota.
	Cost *int64
	// Hold, if not nil, names the hold that the request opens: see [sluice.Hold]. Such a
	// request never waits, and Settle changes none of its charges.
	Hold *sluice.Hold

	evaluated Verdict
	body      *body  // nil: not charged while it is read
	stop      func() // ends the renewal of slots; nil if there are none
	passed    time.Time
	// unreported says that OnDecision waits for the body, which may change the verdict.
	unreported bool
}

// begin makes a Call that may have been used ready for e.
func (c *Call) begin(e *Evaluator) {
	c.stopRenewal() // if the last use was not settled
	overwrite(&c.evaluated.evaluator, e)
	overwrite(&c.body, nil)
	overwrite(&c.evaluated.cost, c.Cost)
	overwrite(&c.evaluated.opens, c.Hold)
	c.unreported, c.evaluated.Allowed = false, false
}

// Settles reports whether [Call.Settle] may have units to correct or slots to release. If
// not, the response need not be watched.
func (c *Call) Settles() bool {
	return c.unreported || c.Verdict.Passes() && c.Evaluated != nil && c.evaluated.settles()
}

// Settle corrects the charges of a request that passed, once its response is known, and
// releases its slots in flight. It continues when ctx ends, and blocks for a second at
// most. A second call does nothing.
func (c *Call) Settle(ctx context.Context, r policy.Response) {
	c.stopRenewal()
	if c.unreported {
		c.unreported = false
		c.evaluated.evaluator.opts.OnDecision(ctx, c.evaluated.attributes, &c.Event)
	}
	switch {
	case c.body != nil: // it may have been denied since
		c.evaluated.evaluator.Report(ctx, c.evaluated.attributes, c.body.settle(ctx, &c.evaluated, r.Read))
	case !c.Verdict.Passes() || c.Evaluated == nil:
		return
	}
	if r.Took == 0 && c.evaluated.timed() {
		r.Took = c.evaluated.evaluator.clock.Now().Sub(c.passed)
	}
	if err := c.evaluated.settleBy(ctx, r); err != nil {
		c.evaluated.evaluator.Report(ctx, c.evaluated.attributes, err)
	}
}

func (c *Call) stopRenewal() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// drop gives back the charges, the place in the queue and the slots if a hook has panicked:
// such a request is never settled.
func (c *Call) drop(ctx context.Context) {
	c.evaluated.vacate(ctx)
	c.evaluated.leaveQueue()
	c.evaluated.evaluator.Report(ctx, c.evaluated.attributes, c.evaluated.cancel(ctx))
}

// Presume charges rules that count responses as if the response will count. It is for a
// request that continues after its client has left: the client could otherwise send others
// meanwhile. Settle must follow, and gives back units that do not count. Presume calls the
// store once for each kind of such rules, and continues for a second at most when ctx ends.
// A second call does nothing.
func (c *Call) Presume(ctx context.Context) {
	if c.Verdict.Passes() && c.Evaluated != nil {
		c.evaluated.evaluator.Report(ctx, c.evaluated.attributes, c.evaluated.presume(ctx))
	}
}

// Limits returns the active limits that the request was charged under, by the names that
// clients know, except blocks, which count no units. They are valid until c is used again.
func (c *Call) Limits() iter.Seq[*sluice.Term] {
	return func(yield func(*sluice.Term) bool) {
		if c.Evaluated == nil {
			return
		}
		for p := range c.evaluated.active {
			if t := c.evaluated.named(p); t.Block.For == 0 && !yield(&t.Term) {
				return
			}
		}
	}
}

// conclude sets the Event by the verdict.
func (c *Call) conclude(ctx context.Context) {
	v, e := &c.evaluated, &c.Event
	if e.Verdict, e.Decision = Allowed, v.Decision; e.Err != nil || v.Err != nil || e.Violated != nil {
		e.Err, e.Violated = v.Err, nil
	}
	overwrite(&e.Evaluated, v)
	if !v.bound || v.full != nil {
		e.Limit, e.Rule, e.Charge = nil, nil, sluice.Charge{}
	}
	if err := v.whyNotDelayed(); err != nil {
		v.evaluator.opts.Queue.refuse(err)
		e.Verdict, e.Err = FailedClosed, err
		e.Decision.Delay = v.Decision.RetryAfter // the delay that it would have had
		return
	}
	if v.bound {
		binding := &v.charges[v.binding.charge]
		binds := v.named(v.binding)
		overwrite(&e.Limit, &binds.Term)
		overwrite(&e.Rule, binding.level.rule.Rule)
		e.Charge.Key, e.Charge.Cost = binding.Key, binding.Cost
		if !v.Allowed {
			e.Verdict, e.Violated = Denied, c.violated(binds)
			if j := e.Rule.RetryJitter; j != (policy.Jitter{}) {
				lengthen(j, &e.Decision)
			}
			return
		}
	}
	if !v.Allowed || v.Err != nil || v.needs&shadowed.needs() != 0 || v.degraded {
		c.concludeBeside(ctx)
	}
}

// concludeBeside sets the Event of a verdict that is not one limit's decision alone.
func (c *Call) concludeBeside(ctx context.Context) {
	v, e := &c.evaluated, &c.Event
	switch {
	case v.Refused != nil:
		e.Verdict, e.Err = Refused, v.Refused
		if token, ok := errors.AsType[*policy.TokenError](v.Refused.Err); ok {
			e.Err = token
		}
	case v.InFlight != nil:
		// The time at which another request will end is not known.
		e.Decision, e.Verdict, e.Rule = sluice.Decision{}, Denied, v.InFlight.Rule
		e.Violated = []string{levelName(v.InFlight.Rule, v.InFlight.Level) + "/" + v.InFlight.Limit.Name}
	case (v.Err != nil || v.degraded) && caller.Left(ctx) != nil: // the caller did not wait for the store
		v.undoLate()
		c.evaluated.evaluator.Report(ctx, v.attributes, v.cancel(ctx))
		e.Verdict, e.Err = Abandoned, caller.Left(ctx)
	case !v.Allowed && v.Err == nil && v.Decision.Hold >= sluice.HoldsFull:
		e.Verdict = Denied // as its hold cannot be opened: every limit has room
	case !v.Allowed:
		e.Verdict = FailedClosed
	case v.Err != nil || v.opened():
		e.Verdict = FailedOpen
	default:
		c.shadowed()
	}
}

// opened reports whether limits that fail open let the request pass without the store.
func (v *Verdict) opened() bool {
	for i := range v.holds {
		if h := &v.holds[i]; h.degraded && h.level.rule.Failure == sluice.FailOpen {
			return true
		}
	}
	for i := range v.enforced {
		if k := &v.asks[i]; k.result.Decision.Degraded && v.failing(k) == sluice.FailOpen {
			return true
		}
	}
	return false
}

// pass sets the Verdict of a request that every limit allows.
func (c *Call) pass() {
	if c.Verdict != Allowed {
		return
	}
	if c.Decision.Delay > 0 {
		c.Verdict = Delayed
	}
	if c.evaluated.needs&needsGrace != 0 {
		for range c.evaluated.Warnings() {
			c.Verdict = Warned
			return
		}
	}
}

// shadowed lists the limits of shadow rules that would have denied the request.
func (c *Call) shadowed() {
	for s := range c.evaluated.Trials() {
		if !s.Shadow || s.Err != nil || s.Allowed {
			continue
		}
		name := s.Rule.Name
		if s.Limit != nil && len(s.Rule.Levels) == 1 {
			name = limitName(s.Rule, &s.Rule.Levels[0], s.several, s.Limit.Name)
		}
		c.Violated = append(c.Violated, name)
	}
}

// violated returns the names of the limits that denied, the binding one first.
func (c *Call) violated(binding *namedTerm) []string {
	all := binding.alone[:]
	if c.evaluated.Limits == 1 {
		return all
	}
	for p := range c.evaluated.active {
		if !c.evaluated.outcomes[p.outcome].Allowed {
			if name := c.evaluated.named(p).Name; !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// hold blocks until the request may pass. If it may not, hold gives all units back.
func (c *Call) hold(ctx context.Context, a policy.Attributes) {
	e, v := c.evaluated.evaluator, &c.evaluated
	began := v.now()
	err := v.enter()
	if err == nil {
		err = c.await(ctx, a)
	}
	if err == nil {
		v.come(began)
		c.Decision = v.Decision
		return
	}
	e.Report(ctx, a, v.cancel(ctx))
	c.Event = Event{Verdict: Abandoned, Decision: v.Decision, Err: err, Evaluated: v}
	if _, bad := errors.AsType[*policy.PartError](err); bad {
		c.Verdict = Refused
	} else if errors.Is(err, ErrQueueFull) {
		c.Verdict = FailedClosed
	}
}

// await blocks until the instant of the request, and keeps its slots meanwhile. It returns
// an error as soon as the client is known to have left.
func (c *Call) await(ctx context.Context, a policy.Attributes) error {
	e, v := c.evaluated.evaluator, &c.evaluated
	if lease := v.lease(); v.Decision.Delay > lease/3 && lease > 0 {
		defer e.renew(ctx, v, lease)()
	}
	held := ctx
	if e.opts.OnDelay != nil {
		var over func()
		held, over = e.opts.OnDelay(ctx, a)
		defer over()
	}
	select {
	case <-v.waiter.Come():
		return nil
	case <-held.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return context.Cause(held)
	}
}

// ErrExpired is passed to OnError when a request loses its slot in flight while it runs:
// another request holds that slot. The request acquires a slot again as soon as one is free.
var ErrExpired = errors.New("evaluate: a slot in flight expired while the request ran, and is taken")

// renew keeps the slots of a request while it runs, and acquires lost ones anew. No other code
// may use v until stop has returned.
func (e *Evaluator) renew(ctx context.Context, v *Verdict, lease time.Duration) (stop func()) {
	// A client that hangs up does not free the slot: its request still runs.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	e.opts.Queue.inFlight.Add(1)
	go func() {
		defer close(done)
		lost := false
		for {
			over, stop := e.clock.After(max(lease/3, time.Millisecond))
			select {
			case <-ctx.Done():
				stop()
				return
			case <-over:
			}
			held, err := v.renew(ctx)
			if ctx.Err() != nil {
				return
			}
			e.Report(ctx, v.attributes, err)
			if err != nil {
				continue
			}
			if !held && !lost {
				e.Report(ctx, v.attributes, ErrExpired)
			}
			lost = !held
		}
	}()
	return func() {
		cancel()
		<-done
		e.opts.Queue.inFlight.Add(-1)
	}
}

// lengthen adds the jitter of a rule to a denial. All of its times move by the same amount, as
// clients may use any of them.
func lengthen(j policy.Jitter, d *sluice.Decision) {
	if d.TooLarge {
		return
	}
	most := j.Most + d.RetryAfter/100*time.Duration(j.Percent)
	if most <= 0 {
		return
	}
	more := time.Duration(rand.Int64N(int64(most) + 1)) //nolint:gosec // a guess shows when there is room again, which is no secret
	d.RetryAfter += more
	d.ResetAfter += more
}
