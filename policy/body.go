// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/sluicegate/sluice"
)

const (
	firstStep   = 64 << 10 // bytes of a body that are charged at first
	largestStep = 4 << 20  // bytes that are charged at once
	stepShare   = 16       // the part of the least quota that a step may take
)

// body is a request's body whose length was not known when the request came. It is
// charged while it is read, so that it costs what the same body costs with a length.
type body struct {
	mu            sync.Mutex
	step          Call           // the last one, under all rules that count the body
	full          int64          // bytes that their limits can ever hold
	next, most    int64          // bytes of the next step, and of any
	read, taken   int64          // bytes that were passed on, and that were charged
	last          int64          // of these, by the last step
	receipt       sluice.Request // which gives them back
	end           func()         // ends a step that is delayed
	ended, denied bool           // nothing is charged any more; nor passed on
}

// Meter returns a function that charges the request's body while it is read, or nil if no
// rule counts the body or its length is known. The function takes the number of further
// bytes, and whether they are the last. It returns nil if these may be passed on, and
// otherwise why not: then nothing more of the body may be. It blocks while the bytes are
// delayed, and is safe for concurrent use. It ends with ctx and with [Call.Settle]. Call
// Meter at most once, after the request has passed.
func (c *Call) Meter(ctx context.Context) (take func(n int, last bool) *Event) {
	if !c.metered() {
		return nil
	}
	v := &c.evaluated
	b := &body{full: sluice.MaxQuota}
	b.step.front = c.front
	s, k := &b.step.evaluated, &v.asks[0]
	s.reset(&c.front.evaluator, v.attributes, false)
	s.matches.of, s.needs = v.matches.of, v.needs&(needsGrace|needsDelay)
	least, whole := b.full, !s.delays()
	for _, of := range v.charges[k.first : k.first+k.n] {
		if !of.metered() {
			continue
		}
		s.charges = append(s.charges, of)
		plan := cmp.Or(of.set.over, of.Plan) // what a soft limit cannot hold draws on its grace
		for j := range plan.Len() {
			t := plan.Term(j)
			b.full, least = min(b.full, t.Full()+t.Credit), min(least, t.Quota, t.Full())
		}
		whole = whole && !of.set.counts
	}
	s.add(taken, 0, false)
	s.enforced = 1
	if whole { // else a step that is not used would delay the body, or count as denied
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
	if !c.Passes() || c.Evaluated == nil || v.enforced == 0 || v.asks[0].role != taken {
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
func (c *charge) metered() bool { return c.rule.Cost.Of == RequestBytes && c.rule.When == nil }

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

// covers charges what is missing for so many bytes of the body: a step or, where that
// does not fit, no more than is missing.
func (b *body) covers(ctx context.Context, read int64, last bool) bool {
	missing := read - b.taken
	switch {
	case missing <= 0:
		return true
	case read > b.full:
		return b.ask(ctx, read) // which is denied as too large, as it would have been with a length
	case !last && missing < b.next:
		if b.ask(ctx, b.next) || b.step.Verdict != Denied {
			b.next = min(2*b.next, b.most)
			return b.step.Passes()
		}
		b.next = 0
	}
	return b.ask(ctx, missing)
}

// ask takes units under all rules that count the body. It reports whether the body
// goes on.
func (b *body) ask(ctx context.Context, units int64) bool {
	c, v := &b.step, &b.step.evaluated
	v.Err, v.Failure, v.full, v.bound, v.settled, v.flat = nil, sluice.FailOpen, nil, false, false, v.flat[:0]
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
	v.undoLate() // what goes on though the store failed is charged by the next step, or settled
	c.front.conclude(ctx, v.attributes, struct{ Attributes }{v.attributes}, c)
	if k := &v.asks[0]; c.Passes() && k.result.Err == nil {
		b.taken, b.last, b.receipt = b.taken+units, units, v.refund(k)
		b.receipt.More, b.receipt.Due = slices.Clone(b.receipt.More), 0
	}
	return c.Passes()
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
		c.Cost, c.Held = spare, b.last
	}
	ctx, cancel := undoContext(ctx)
	defer cancel()
	_, err := v.store.Take(ctx, b.receipt)
	return err
}
