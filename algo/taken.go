// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// CountTake decides an OpTake of cost units into d, which is zero, over the state of a fixed
// window, of a sliding counter of one sub-window, or of a bucket that refills in intervals.
// t has written s, and s is not idle at now. A counter may have no state if cost is not 0.
// CountTake equals [Decide] for that one limit, in fewer steps, and does not allocate.
// written is false if s did not change. ok is false if Decide is needed; then CountTake has
// done nothing.
func CountTake(t *sluice.Term, s *State, now, cost int64, d *sluice.Decision) (written, ok bool) {
	if !t.Counted || s.Reserved || cost > full(t) || now < 0 || now > latest {
		return false, false
	}
	var left, at int64 // units left before the take, and the instant at which it fits
	switch {
	case t.Burst > 0:
		if left, at, ok = (intervalBucket{}).count(t, s, now, cost); !ok {
			return false, false
		}
	case t.Kind == compiled.FixedWindow:
		if (fixedWindow{}).stepped(t, s, now) {
			return false, false
		}
		if left, at = t.Quota-s.A, now; cost > left {
			at = s.Idle
		} else {
			s.A += cost
		}
	default:
		c := slidingCounter{}
		if now < c.start(t, s) || c.owed(t, s) > 0 {
			return false, false
		}
		v := c.at(t, s, now)
		left = t.Quota - v.whole - v.weighed(t, now)
		if from, fits := v.fits(t, cost); fits && from <= now {
			at = now
			if cost > 0 {
				c.turn(t, s, now)
				s.A += cost
			}
		} else {
			at = c.earliest(t, s, now, cost)
		}
	}
	d.At, d.Due = sluice.Instant(now), sluice.Instant(now)
	if at > now {
		d.RetryAfter, d.TooLarge = retryAfter(at - now)
		cost = 0
	} else {
		d.Allowed, d.Spent = true, cost
	}
	d.Remaining = max(left-cost, 0)
	d.ResetAfter = micros(s.Idle - now)
	return cost > 0, true
}

// weighed returns the weighed units of the oldest sub-window at now, rounded as the rule
// rounds, so that the largest cost that fits is the rest of the quota.
func (v *view) weighed(t *sluice.Term, now int64) int64 {
	if v.oldest == 0 || t.Conservative || t.Whole {
		return v.oldest
	}
	n, rem := span.MulDiv(v.oldest, t.Sub-(now-v.start), t.Sub)
	if t.Strict && rem > 0 {
		n++
	}
	return n
}
