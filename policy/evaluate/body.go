// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

const (
	firstStep   = 64 << 10 // bytes of a body that are charged first
	largestStep = 4 << 20  // the most bytes that are charged at once
	stepShare   = 16       // a step takes at most this part of the smallest quota
)

// body is a request's body of unknown length. It is charged while it is read, and costs as
// much as the same body with a known length.
type body struct {
	mu            sync.Mutex
	step          Call           // the last step, under all rules that count the body
	full          int64          // the most bytes that fit their limits
	next, most    int64          // bytes of the next step, and of the largest
	read, taken   int64          // bytes passed on, and bytes charged
	last          int64          // bytes charged by the last step
	receipt       sluice.Request // the refund of the last step
	end           func()         // ends the delay of a step
	ended, denied bool           // ended: no more is charged; denied: no more is passed on
}

// Meter returns a function that charges the request's body while it is read, or nil if no
// rule counts the body or its length is known. The function takes the number of further
// bytes, and whether they are the last. It returns nil if these may be passed on, and the
// reason otherwise: then no more of the body may be passed on. It blocks while the bytes are
// delayed, is safe for concurrent use, and ends with ctx and with [Call.Settle]. Call Meter
// at most once, after the request has passed.
func (c *Call) Meter(ctx context.Context) (take func(n int, last bool) *Event) {
	if !c.metered() {
		return nil
	}
	v := &c.evaluated
	b := &body{full: sluice.MaxQuota}
	s, k := &b.step.evaluated, &v.asks[0]
	s.evaluator = v.evaluator
	s.reset(v.attributes, false)
	s.needs = v.needs & (needsGrace | needsDelay)
	least, whole := b.full, !s.delays()
	for _, of := range v.charges[k.first : k.first+k.n] {
		if !of.metered() {
			continue
		}
		s.charges = append(s.charges, of)
		plan := cmp.Or(of.set.Over, of.Plan) // bytes over a soft limit draw on its grace limit
		for j := range plan.Len() {
			t := plan.Term(j)
			b.full, least = min(b.full, t.Full+t.Credit), min(least, t.Quota, t.Full)
		}
		whole = whole && !of.set.counts
	}
	s.add(taken, 0, false)
	s.enforced = 1
	if whole { // else an unused step would delay the body, or count as denied
		b.most = min(max(least/stepShare, 1), largestStep)
		b.next = min(b.most, firstStep)
	}
	b.taken = s.charges[0].Cost
	ctx, b.end = context.WithCancel(ctx)
	c.body = b
	return func(n int, last bool) *Event { return b.take(ctx, int64(n), last) }
}

// metered reports whether the request's body is charged while it is read.
func (c *Call) metered() bool {
	v := &c.evaluated
	if v.needs&needsCost == 0 || !c.Verdict.Passes() || c.Evaluated == nil || v.enforced == 0 || v.asks[0].role != taken {
		return false
	}
	k := &v.asks[0]
	for i := range v.charges[k.first : k.first+k.n] {
		if v.charges[k.first+i].metered() {
			return v.attributes.Length() < 0
		}
	}
	return false
}

// metered reports whether a charge is for a body that is charged while it is read.
func (c *charge) metered() bool {
	return c.level.rule.Cost.Of == policy.RequestBytes && c.level.rule.When == nil
}

// take is the function that Meter returns.
func (b *body) take(ctx context.Context, n int64, last bool) *Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return &Event{Verdict: Abandoned, Err: context.Canceled}
	case b.denied || !b.covers(ctx, b.read+n, last):
		b.denied = true
		return &b.step.Event
	}
	b.read += n
	return nil
}

// covers charges the missing units for that many bytes of the body: a whole step or, if
// that does not fit, only the missing units.
func (b *body) covers(ctx context.Context, read int64, last bool) bool {
	missing := read - b.taken
	switch {
	case missing <= 0:
		return true
	case read > b.full:
		return b.ask(ctx, read) // which is denied as too large, as with a known length
	case !last && missing < b.next:
		if b.ask(ctx, b.next) || b.step.Verdict != Denied {
			b.next = min(2*b.next, b.most)
			return b.step.Verdict.Passes()
		}
		b.next = 0
	}
	return b.ask(ctx, missing)
}

// ask takes units under all rules that count the body. It reports whether the bytes may be
// passed on.
func (b *body) ask(ctx context.Context, units int64) bool {
	c, v := &b.step, &b.step.evaluated
	v.Err, v.Failure, v.full, v.bound, v.settled, v.degraded, v.flat = nil, sluice.FailOpen, nil, false, false, false, v.flat[:0]
	for i := range v.charges {
		v.charges[i].Cost = units
	}
	v.layout()
	if v.delays() {
		v.patience(ctx)
		v.enterQueue()
	}
	v.ask(ctx)
	v.combine(ctx)
	v.undoLate() // bytes passed on despite a store error are charged by the next step, or settled
	v.evaluator.conclude(ctx, v.attributes, struct{ policy.Attributes }{v.attributes}, c)
	if k := &v.asks[0]; c.Verdict.Passes() && k.result.Err == nil {
		b.taken, b.last, b.receipt = b.taken+units, units, v.refund(k)
		b.receipt.More, b.receipt.Due = slices.Clone(b.receipt.More), 0
	}
	return c.Verdict.Passes()
}

// settle ends the body. It refunds the unused part of the last step, and records the charge
// in the verdict of the request.
func (b *body) settle(ctx context.Context, v *Verdict, read int64) error {
	b.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	spare := max(min(b.taken-read, b.last), 0)
	for i := range v.charges[:v.asks[0].n] {
		if c := &v.charges[i]; c.metered() {
			c.Cost = b.taken - spare
		}
	}
	if spare == 0 {
		return nil
	}
	for i := range b.receipt.Charges() {
		c := b.receipt.Nth(i)
		c.Cost, c.Counted = spare, b.last
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	_, err := v.evaluator.opts.Store.Take(ctx, b.receipt)
	return err
}
