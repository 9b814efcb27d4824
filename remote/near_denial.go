// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// denial is a remembered denial. The zero value denies nothing.
type denial struct {
	plan       uint64 // identity of its limits
	cost       int64
	heard      int64 // when the answer came, in ns
	until      int64 // the cost does not fit before this, in ns
	remaining  int64
	retryAfter time.Duration
	resetAfter time.Duration
	at         sluice.Instant
	binding    int
	outcomes   []sluice.Outcome // of a leased plan with several limits
}

// newDenial returns the denial of later takes that follows from the store's answer to a take
// of cost, or the zero denial if none follows.
func newDenial(pi *planInfo, cost, sent, heard, age int64, d *sluice.Decision) denial {
	n := denial{
		plan: pi.id, cost: cost, heard: heard,
		remaining: d.Remaining, retryAfter: d.RetryAfter, resetAfter: d.ResetAfter,
		at: d.At, binding: d.Binding,
	}
	if d.Allowed {
		// The last unit is gone: a take of one is denied from now on.
		if d.Remaining > 0 {
			return denial{}
		}
		n.cost, n.retryAfter = 1, pi.rule.spent(d.ResetAfter)
	}
	// The store decided after the request was sent, in whole µs of its own: the
	// instant at which the cost fits may be almost one earlier than it seems.
	lasts := min(int64(n.retryAfter)-int64(time.Microsecond), age)
	if pi.leased {
		lasts = shortened(lasts)
	}
	n.until = sent + lasts
	if d.TooLarge || n.retryAfter <= 0 || heard >= n.until {
		return denial{}
	}
	return n
}

// known reports whether n denies anything.
func (n *denial) known() bool { return n.until != 0 }

// covers reports whether n is about a take of cost under the limits of pi.
func (n *denial) covers(pi *planInfo, cost int64) bool {
	return n.known() && n.plan == pi.id && cost >= n.cost
}

// outlasts reports whether n denies more than m: a smaller cost, or the same for longer.
func (n *denial) outlasts(m *denial) bool {
	return n.known() && m.heard < n.until && (n.cost < m.cost || n.cost == m.cost && n.free() > m.free())
}

// free returns when the cost fits, on the store's clock.
func (n *denial) free() sluice.Instant {
	return n.at + sluice.Instant(n.retryAfter.Microseconds())
}

// answer writes to d and out the store's answer about cost now; n must cover it. It
// reports false if the answer is not known.
func (n *denial) answer(pi *planInfo, cost, now int64, out []sluice.Outcome, d *sluice.Decision) bool {
	if now >= n.until {
		return false
	}
	// From when the answer came, not from when the request was sent: a client
	// must not be asked to come too early.
	elapsed := time.Duration(max(now-n.heard, 0)).Truncate(time.Microsecond)
	left := n.retryAfter - elapsed
	retry, tooLarge, ok := pi.rule.retryAfter(n, cost, left)
	if !ok || len(out) > 0 && pi.plan.Len() > 1 && n.outcomes == nil {
		return false
	}
	at := n.at + sluice.Instant(elapsed.Microseconds())
	*d = sluice.Decision{
		TooLarge:   tooLarge,
		Binding:    n.binding,
		Remaining:  pi.rule.remaining(n, left),
		RetryAfter: retry,
		ResetAfter: max(n.resetAfter-elapsed, 0),
		At:         at,
		Due:        at,
	}
	if len(out) > 0 && pi.plan.Len() == 1 {
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

// later returns the outcome o of a denial after a time has passed.
func later(o sluice.Outcome, passed time.Duration) sluice.Outcome {
	if o.RetryAfter > 0 && !o.TooLarge {
		o.RetryAfter = max(o.RetryAfter-passed, time.Microsecond)
	}
	if o.ResetAfter > 0 {
		o.ResetAfter = max(o.ResetAfter-passed, time.Microsecond)
	}
	return o
}

// rule derives the denial of other costs from that of one.
type rule struct {
	// each is the time per unit of a bucket, if it is a whole number of µs.
	each time.Duration
	// window is set for a fixed window.
	window bool
	full   int64 // the largest cost that can fit
}

// ruleOf returns the rule of p. The zero rule derives nothing.
func ruleOf(p *sluice.Plan) rule {
	if p.Len() > 1 {
		return rule{}
	}
	t := p.Term(0)
	switch {
	case t.Kind == compiled.FixedWindow:
		return rule{window: true, full: t.Quota}
	case t.Burst > 0 && t.Lent == 0 && t.Refill == sluice.Continuous && t.Rate.Den == 1 && t.WarmUp == 0:
		return rule{each: time.Duration(t.Rate.Num) * time.Microsecond, full: t.Burst}
	default:
		return rule{}
	}
}

// spent returns the time until one unit fits, for a key that has none and is full after
// reset; 0 if it is not known.
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

// retryAfter returns the time until cost fits, if the denied cost fits after left, and
// whether cost exceeds the limit.
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

// refills reports whether n waits for a bucket to refill at its own rate, and not for a
// reservation or for the refill of another form of the limit. It returns false for a cost that
// takes the whole bucket, whose denial does not show that.
func (r rule) refills(n *denial) bool {
	return r.each > 0 && n.cost < r.full &&
		n.retryAfter == n.resetAfter-time.Duration(r.full-n.cost)*r.each &&
		n.remaining == r.units(n.cost, n.retryAfter)
}

// units returns the units of a bucket in which cost fits after left.
func (r rule) units(cost int64, left time.Duration) int64 {
	return int64(max(time.Duration(cost)*r.each-left, 0) / r.each)
}

// remaining returns the units left, if the denied cost fits after left.
func (r rule) remaining(n *denial, left time.Duration) int64 {
	if !r.refills(n) {
		return n.remaining
	}
	return r.units(n.cost, left)
}
