// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"time"

	"github.com/sluicegate/sluice"
)

// denial is what is remembered of one. The zero denial says nothing.
type denial struct {
	plan       uint64 // identity of the limits
	cost       int64
	heard      int64 // when the answer came, in ns
	until      int64 // up to here the cost does not fit, in ns
	remaining  int64
	retryAfter time.Duration
	resetAfter time.Duration
	at         sluice.Instant
	binding    int
	outcomes   []sluice.Outcome // of several limits that are leased
}

// newDenial returns what the store's answer to a take of cost says about the
// takes to come, the zero denial if that is nothing.
func newDenial(f *facts, cost, sent, heard, age int64, d *sluice.Decision) denial {
	n := denial{
		plan: f.id, cost: cost, heard: heard,
		remaining: d.Remaining, retryAfter: d.RetryAfter, resetAfter: d.ResetAfter,
		at: d.At, binding: d.Binding,
	}
	if d.Allowed {
		// The last unit is gone: what asks for one is denied from now on.
		if d.Remaining > 0 {
			return denial{}
		}
		n.cost, n.retryAfter = 1, f.rule.spent(d.ResetAfter)
	}
	// The store decided after the request was sent, in whole µs of its own: the
	// instant at which the cost fits may be almost one earlier than it seems.
	lasts := min(int64(n.retryAfter)-int64(time.Microsecond), age)
	if f.leased {
		lasts = shortened(lasts)
	}
	n.until = sent + lasts
	if d.TooLarge || n.retryAfter <= 0 || heard >= n.until {
		return denial{}
	}
	return n
}

// known reports whether n says anything.
func (n *denial) known() bool { return n.until != 0 }

// of reports whether n is about a take of cost under the limits of f.
func (n *denial) of(f *facts, cost int64) bool {
	return n.known() && n.plan == f.id && cost >= n.cost
}

// outlasts reports whether n says more than m: of a smaller cost, or for longer.
func (n *denial) outlasts(m *denial) bool {
	return n.known() && m.heard < n.until && (n.cost < m.cost || n.cost == m.cost && n.free() > m.free())
}

// free returns when the cost fits, on the store's clock.
func (n *denial) free() sluice.Instant {
	return n.at + sluice.Instant(n.retryAfter.Microseconds())
}

// answer puts into d and out what the store would answer about cost now, which n
// must be of. It reports false if that is not known.
func (n *denial) answer(f *facts, cost, now int64, out []sluice.Outcome, d *sluice.Decision) bool {
	if now >= n.until {
		return false
	}
	// From when the answer came, not from when the request was sent: a client
	// must not be asked to come too early.
	elapsed := time.Duration(max(now-n.heard, 0)).Truncate(time.Microsecond)
	left := n.retryAfter - elapsed
	retry, tooLarge, ok := f.rule.retryAfter(n, cost, left)
	if !ok || len(out) > 0 && f.plan.Len() > 1 && n.outcomes == nil {
		return false
	}
	at := n.at + sluice.Instant(elapsed.Microseconds())
	*d = sluice.Decision{
		TooLarge:   tooLarge,
		Binding:    n.binding,
		Remaining:  f.rule.remaining(n, left),
		RetryAfter: retry,
		ResetAfter: max(n.resetAfter-elapsed, 0),
		At:         at,
		Due:        at,
	}
	if len(out) > 0 && f.plan.Len() == 1 {
		out[0] = sluice.Outcome{TooLarge: tooLarge, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
		return true
	}
	if len(out) > 0 {
		for i, o := range n.outcomes {
			out[i] = later(o, elapsed)
		}
	}
	return true
}

// later returns what a limit of a denial has to say once a while has passed.
func later(o sluice.Outcome, passed time.Duration) sluice.Outcome {
	if o.RetryAfter > 0 && !o.TooLarge {
		o.RetryAfter = max(o.RetryAfter-passed, time.Microsecond)
	}
	if o.ResetAfter > 0 {
		o.ResetAfter = max(o.ResetAfter-passed, time.Microsecond)
	}
	return o
}

// rule is how a denial of one cost describes others.
type rule struct {
	// each is how long a unit of a bucket lasts if that is a whole number of µs.
	each time.Duration
	// window is set for a fixed window.
	window bool
	full   int64 // the largest cost that can fit
}

// ruleOf returns the rule of p: the zero rule describes no other cost.
func ruleOf(p *sluice.Plan) rule {
	if p.Len() > 1 {
		return rule{}
	}
	t := p.Term(0)
	switch {
	case t.Algorithm == sluice.FixedWindow:
		return rule{window: true, full: t.Quota}
	case t.Burst > 0 && t.Lent == 0 && t.Refill == sluice.Continuous && t.Rate.Den == 1 && t.WarmUp == 0:
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
// fits after left, and whether it is more than the limit holds.
func (r rule) retryAfter(n *denial, cost int64, left time.Duration) (after time.Duration, tooLarge, ok bool) {
	switch {
	case cost == n.cost:
		return left, false, true
	case r.full == 0:
		return 0, false, false
	case cost > r.full:
		return sluice.MaxRetryAfter, true, true
	case r.window:
		// Both wait for the next window, unless a reservation holds the key.
		return left, false, n.retryAfter == n.resetAfter
	default:
		return min(left+time.Duration(cost-n.cost)*r.each, sluice.MaxRetryAfter), false, r.refills(n)
	}
}

// refills reports whether n waits for units of a bucket alone, at its own rate:
// not for the instant at which a reservation under another form of the limit is
// due, nor for what another form has left to refill. A cost that takes the whole
// bucket does not record it.
func (r rule) refills(n *denial) bool {
	return r.each > 0 && n.cost < r.full &&
		n.retryAfter == n.resetAfter-time.Duration(r.full-n.cost)*r.each &&
		n.remaining == r.units(n.cost, n.retryAfter)
}

// units returns how many units a bucket has in which cost fits after left.
func (r rule) units(cost int64, left time.Duration) int64 {
	return int64(max(time.Duration(cost)*r.each-left, 0) / r.each)
}

// remaining returns how many units are left when the cost denied fits after left.
func (r rule) remaining(n *denial, left time.Duration) int64 {
	if !r.refills(n) {
		return n.remaining
	}
	return r.units(n.cost, left)
}
