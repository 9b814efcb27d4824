// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// bucket is the generic cell rate algorithm (ITU-T I.371), which is the token
// bucket with continuous refill and, seen from the other side, the leaky
// bucket: one instant, the time at which the bucket is full again. Each unit
// moves it on by Window/Quota; a cost fits if that stays within Burst units
// of now.
//
// State: Idle is that instant rounded up (later by a window where a key starts
// with less than its burst), A the remainder that was rounded away, in 1/Den µs.
type bucket struct{}

// bucketTime returns the exact instant at which the bucket is full.
func bucketTime(t *sluice.Term, s *State) span.Span {
	tat := span.Span{Micros: s.Idle - lag(t), Rem: s.A}
	if tat.Rem > 0 {
		tat.Micros--
	}
	return tat
}

func setBucketTime(t *sluice.Term, s *State, tat span.Span) {
	s.Idle, s.A = tat.Ceil()+lag(t), tat.Rem
}

// debt returns the debt of s at now: how long until the bucket is full, zero
// if it is.
func debt(t *sluice.Term, s *State, now int64) span.Span {
	if s.Zero() {
		return span.Span{}
	}
	d := t.Rate.Sub(bucketTime(t, s), span.Span{Micros: now})
	if d.Micros < 0 {
		return span.Span{}
	}
	return d
}

func (bucket) first(t *sluice.Term, s *State, now int64) {
	setBucketTime(t, s, t.Rate.Add(span.Span{Micros: now}, t.Rate.Times(t.Withheld)))
}

func (bucket) instant(*sluice.Term, *State) int64 { return 0 }

func (bucket) counted(t *sluice.Term, s *State, now int64) int64 {
	d := debt(t, s, now)
	n := t.Rate.Units(d)
	if t.Rate.Times(n).Less(d) {
		n++
	}
	return n
}

func (bucket) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	after := t.Rate.Add(bucketTime(t, s), t.Rate.Times(cost))
	return max(now, t.Rate.Sub(after, t.Reach).Ceil())
}

func (bucket) spend(t *sluice.Term, s *State, _, at, cost int64) {
	start := t.Rate.Add(span.Span{Micros: at}, debt(t, s, at))
	setBucketTime(t, s, t.Rate.Add(start, t.Rate.Times(cost)))
}

// refund gives back no more than could still be spent had the units never been
// taken: what has drained since they began to is forgiven already. And where
// others go on later than they, because of a reservation or in a queue, those
// keep their instants: what they stand for is not given back either, or it
// would be spent a second time at those instants.
func (bucket) refund(t *sluice.Term, s *State, now, at, due, units int64) int64 {
	units = min(units, t.Burst+t.Debt)
	start, free := at, t.Burst // from start on they drain; a free unit goes on at once
	if t.DelayAfter > 0 {
		free = t.DelayAfter
	}
	var rounded span.Span
	if due > at {
		// The units left the queue free of them behind their due instant,
		// whoever came before.
		start = max(start, due+t.Rate.Times(free).Micros-t.Rate.Times(units).Ceil())
		rounded.Micros = 1 // a reservation's instant is, and its due instant anew
	}
	d := debt(t, s, now)
	last := t.Rate.Sub(t.Rate.Add(span.Span{Micros: now}, d), t.Rate.Times(free+t.Debt))
	behind := t.Rate.Sub(last, span.Span{Micros: due})
	gone := span.Span{Micros: max(now-start, 0)}
	if rounded.Less(behind) {
		units = min(units, free)
		if gone.Less(behind) {
			gone = behind
		}
	}
	back := t.Rate.Sub(t.Rate.Times(units), gone)
	if d.Less(back) {
		back = d
	}
	if back.Micros < 0 || back == (span.Span{}) {
		return 0
	}
	d = t.Rate.Sub(d, back)
	if d == (span.Span{}) && lag(t) == 0 {
		s.clear()
	} else {
		setBucketTime(t, s, t.Rate.Add(span.Span{Micros: now}, d))
	}
	return t.Rate.Units(back)
}

func (bucket) horizon(t *sluice.Term) int64 {
	return t.Most.Ceil() + maxWait + lag(t)
}

// WordTake decides an OpTake of cost units on the state of one word of a
// bucket ([FormWord]) with no Withheld units: idle and rem are the state's Idle
// and A, zero if never seen. It equals [Decide] for that one limit. If denied,
// the new word is the old one, unless the clock has stepped back so far that
// the state starts over. It does not allocate.
func WordTake(t *sluice.Term, idle, rem, now, cost int64, d *sluice.Decision) (newIdle, newRem int64) {
	r := &t.Rate
	var ahead span.Span // how long until the bucket is full
	if idle > now {
		ahead = span.Span{Micros: idle - now, Rem: rem}
		if rem > 0 {
			ahead.Micros--
		}
		if idle-now > t.Most.Ceil()+maxWait { // the clock stepped back: see prepare
			ahead = t.Most
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
	d.RetryAfter, d.Delay = 0, 0
	d.ResetAfter = micros(after.Ceil())
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
	if t.DelayAfter != 0 && t.DelayAfter < t.Burst {
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
	d.RetryAfter = micros(retry)
	d.ResetAfter = micros(ahead.Ceil())
	d.At = sluice.Instant(now)
	d.Due = sluice.Instant(now)
}
