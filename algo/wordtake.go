// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// WordTake decides an OpTake of cost units on the one-word state of a bucket or a fixed
// window (OneWord of its term): idle and rem are the state's Idle and A, zero for a
// new key. It equals [Decide] for that one limit. If the take is denied,
// the new word is the old one, unless the clock has stepped back so far that
// the state starts over. It does not allocate.
func WordTake(t *sluice.Term, idle, rem, now, cost int64, d *sluice.Decision) (newIdle, newRem int64) {
	if t.Burst == 0 {
		return fixedWindow{}.wordTake(t, idle, rem, now, cost, d)
	}
	r := &t.Rate
	now = clamp(now)
	var ahead span.Span // time until the bucket is full
	if idle > now {
		ahead = span.Span{Micros: idle - now, Rem: rem}
		if rem > 0 {
			ahead.Micros--
		}
		if idle-now > t.Horizon { // the clock stepped back: see prepare
			ahead = emptied(t)
			idle, rem = now+ahead.Ceil(), ahead.Rem
		}
	}
	after := ahead
	if cost == 1 {
		after = r.Add(after, r.One)
	} else {
		if cost > t.Burst {
			wordDenied(t, ahead, now, never, d)
			return idle, rem
		}
		after = r.Add(after, r.Times(cost))
	}
	if t.Reach.Less(after) {
		wordDenied(t, ahead, now, r.Sub(after, t.Reach).Ceil(), d)
		return idle, rem
	}
	d.Allowed = true
	d.Spent = cost
	d.Remaining = r.Units(r.Sub(t.Reach, after))
	d.TooLarge, d.RetryAfter, d.Delay = false, 0, 0
	d.ResetAfter = micros(after.Ceil())
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
	if t.Queues {
		*d = held(*d, 0, max(r.Sub(after, r.Times(t.DelayAfter)).Ceil(), 0))
	}
	if cost == 0 {
		return idle, rem
	}
	return now + after.Ceil(), after.Rem
}

func wordDenied(t *sluice.Term, ahead span.Span, now, retry int64, d *sluice.Decision) {
	d.Allowed, d.Spent, d.Delay = false, 0, 0
	d.Remaining = t.Rate.Units(t.Rate.Sub(t.Reach, ahead))
	d.RetryAfter, d.TooLarge = retryAfter(retry)
	d.ResetAfter = micros(ahead.Ceil())
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
}
