// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache

import (
	"time"

	"github.com/sluicegate/sluice"
)

// denial is what is remembered of one. It holds no pointer, so that the
// collector need not look at the table. The zero denial is an empty slot.
type denial struct {
	key, plan  uint64
	cost       int64
	heard      int64 // when the answer came, in ns
	until      int64 // up to here the cost does not fit, in ns
	remaining  int64
	retryAfter time.Duration
	resetAfter time.Duration
	at         sluice.Instant
	binding    int64
}

// newDenial returns what the store's answer to a plain take says about the
// takes to come, the zero denial if that is nothing.
func newDenial(c *call, d *sluice.Decision, now, age int64) denial {
	e := denial{
		key: c.first.key, plan: c.first.plan, cost: c.cost, heard: now,
		remaining: d.Remaining, retryAfter: d.RetryAfter, resetAfter: d.ResetAfter,
		at: d.At, binding: int64(d.Binding),
	}
	if d.Allowed {
		// The last unit is gone: what asks for one is denied from now on.
		if d.Remaining > 0 {
			return denial{}
		}
		e.cost, e.retryAfter = 1, c.rule.spent(d.ResetAfter)
	}
	// The store decided after the call was sent, in whole µs of its own: the
	// instant at which the cost fits may be almost one earlier than it seems.
	e.until = c.sent + min(int64(e.retryAfter)-int64(time.Microsecond), age)
	if e.retryAfter == sluice.Never || e.retryAfter <= 0 || now >= e.until {
		return denial{}
	}
	return e
}

// known reports whether e says anything.
func (e *denial) known() bool { return e.until != 0 }

// free returns when the cost fits, on the store's clock.
func (e *denial) free() sluice.Instant {
	return e.at + sluice.Instant(e.retryAfter.Microseconds())
}

// answer puts into d what the store would answer about cost now. It reports
// false if that is not known.
func (e *denial) answer(r rule, cost, now int64, d *sluice.Decision) bool {
	if now >= e.until || cost < e.cost {
		return false
	}
	// From when the answer came, not from when the request was sent: a client
	// must not be told to come too early.
	elapsed := time.Duration(max(now-e.heard, 0)).Truncate(time.Microsecond)
	left := e.retryAfter - elapsed
	retry, ok := r.retryAfter(e, cost, left)
	if !ok {
		return false
	}
	at := e.at + sluice.Instant(elapsed.Microseconds())
	*d = sluice.Decision{
		Binding:    int(e.binding),
		Remaining:  r.remaining(e, left),
		RetryAfter: retry,
		ResetAfter: max(e.resetAfter-elapsed, 0),
		At:         at,
		Due:        at,
	}
	return true
}

// rule is how a denial of one cost tells about others.
type rule struct {
	// each is how long a unit of a bucket lasts if that is a whole number of µs.
	each time.Duration
	// window is set for a fixed window.
	window bool
	full   int64 // the largest cost that can fit
}

// ruleOf returns the rule of p: the zero rule tells about no other cost.
func ruleOf(p *sluice.Plan) rule {
	if p.Len() > 1 {
		return rule{}
	}
	t := p.Term(0)
	switch {
	case t.Algorithm == sluice.FixedWindow:
		return rule{window: true, full: t.Quota}
	case t.Burst > 0 && t.Refill == sluice.Continuous && t.Rate.Den == 1:
		return rule{each: time.Duration(t.Rate.Num) * time.Microsecond, full: t.Burst}
	default:
		return rule{}
	}
}

// spent returns how long it takes until one unit fits a key that has none and
// is as new after reset. It is 0 if that is not known.
func (r rule) spent(reset time.Duration) time.Duration {
	switch {
	case r.window:
		return reset
	case r.each > 0:
		return reset - time.Duration(r.full-1)*r.each
	default:
		return 0
	}
}

// retryAfter returns how long it takes until cost fits, where the one denied
// fits after left.
func (r rule) retryAfter(e *denial, cost int64, left time.Duration) (time.Duration, bool) {
	switch {
	case cost == e.cost:
		return left, true
	case r.full == 0:
		return 0, false
	case cost > r.full:
		return sluice.Never, true
	case r.window:
		// Both wait for the next window, unless a reservation holds the key.
		return left, e.retryAfter == e.resetAfter
	default:
		return left + time.Duration(cost-e.cost)*r.each, r.refills(e)
	}
}

// refills reports whether e waits for units of a bucket alone, at its own rate:
// not for the instant at which a reservation under another form of the limit is
// due, nor for what another form has left to refill. A cost that takes the whole
// bucket does not tell.
func (r rule) refills(e *denial) bool {
	return r.each > 0 && e.cost < r.full &&
		e.retryAfter == e.resetAfter-time.Duration(r.full-e.cost)*r.each &&
		e.remaining == r.units(e.cost, e.retryAfter)
}

// units returns how many units a bucket has in which cost fits after left.
func (r rule) units(cost int64, left time.Duration) int64 {
	return int64(max(time.Duration(cost)*r.each-left, 0) / r.each)
}

// remaining returns how many units are left when the cost denied fits after left.
func (r rule) remaining(e *denial, left time.Duration) int64 {
	if !r.refills(e) {
		return e.remaining
	}
	return r.units(e.cost, left)
}
