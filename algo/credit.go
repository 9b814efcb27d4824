// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// Credit means the units that an add gives above a full bucket. A bucket has credit only while
// it owes nothing, and spends it before other units. So a balance is either credit, with
// B = −credit and Idle the instant at which it lapses, or as in bucket.go.

// longest is the longest time, in µs, that a conversion to another rate returns. The units
// may last longer. See package span.
const longest = 1 << 60

// credit returns the units of credit in s, also those that another limit of the name has
// given, up to the Credit of t.
func credit(t *sluice.Term, s *State) int64 {
	if t.Credit == 0 || s.B >= 0 {
		return 0
	}
	return min(-s.B, t.Credit)
}

// spendCredit spends cost from the credit of s as far as t sees it, and the rest from the
// bucket. It spends the credit now, also for units that count later, because the credit may
// lapse before. Credit that t does not see is lost. So is the rest of the credit under a
// reservation that is due no earlier than the credit lapses.
func (bucket) spendCredit(t *sluice.Term, s *State, now, at, cost int64) {
	seen := credit(t, s)
	spent := min(cost, seen)
	left := seen - spent
	if s.Idle <= at {
		left = 0
	}
	if left == 0 || spent < cost {
		owe(t, s, now, at, t.Rate.Times(cost-spent))
		if s.Idle <= now {
			s.rest()
		}
		return
	}
	if s.B = -left; !own(t, s) {
		s.By, s.Since = nil, now
		s.Idle = min(s.Idle, now+t.CreditFor.Microseconds())
	}
	if at > now {
		s.Last = max(s.Last, at)
	}
}

// give gives owed units back, and the rest as credit if nothing is owed or reserved ahead
// then. It returns the number of units given.
func (b bucket) give(t *sluice.Term, s *State, now, units int64) int64 {
	given := b.reduceDebt(t, s, now, units)
	if s.Last > now || owed(t, s, now) != (span.Span{}) {
		return given
	}
	before := credit(t, s)
	more := min(units-given, t.Credit-before)
	if more <= 0 {
		return given
	}
	*s = State{B: -(before + more), Idle: now + t.CreditFor.Microseconds(), Since: now, Last: now}
	return given + more
}

// reduceDebt gives owed units back, as t sees them. Reserved units keep their instant: only
// the debt beyond that instant is reduced.
func (b bucket) reduceDebt(t *sluice.Term, s *State, now, units int64) int64 {
	if s.Zero() || s.B < 0 || units == 0 {
		return 0
	}
	r, before, at := &t.Rate, owed(t, s, now), max(s.Last, now)
	asWritten := s.Last > now || before.Micros >= longest
	if asWritten {
		r = &writer(t, s).Rate
		before = until(r, bucketTime(s), at)
	}
	back := before
	if r.Fits(units, before.Ceil()) {
		if some := r.Times(units); some.Less(back) {
			back = some
		}
	}
	if back == (span.Span{}) {
		return 0
	}
	after := r.Sub(before, back)
	switch {
	case asWritten && at+after.Ceil() > now:
		setBucketTime(s, r.Add(span.Span{Micros: at}, after))
		s.Last = at
	case after == (span.Span{}):
		s.rest()
		return unitsUp(r, back)
	case own(t, s) || !t.Reach.Less(after):
		owe(t, s, now, now, after)
	default: // more than t may owe: the writer stays
		setBucketTime(s, s.By.Rate.Add(span.Span{Micros: now}, convert(t, s.By, after)))
		s.Last = now
	}
	// Older receipts may be of units that are given back here. And a balance that owes more
	// than its writer may has been charged under another limit: see stepped.
	if s.Since > 0 || t.Credit > 0 || t.Most.Less(after) {
		s.Since, s.Last = max(s.Since, now), max(s.Last, now)
	}
	return unitsUp(r, back)
}

// proportion makes t the writer of a balance, and makes t owe the same share of its Burst as
// the old writer owes of its own. It returns the change in units, negative if t owes
// less, rounded away from zero, and whether it changed the balance.
func (bucket) proportion(t *sluice.Term, s *State, now int64) (more int64, done bool) {
	if s.Zero() || own(t, s) || s.B < 0 || s.Last > now || s.Since > now {
		return 0, false
	}
	before, w := owed(t, s, now), s.By
	if before.Micros >= longest || span.LessProduct(longest, w.Burst, before.Micros+1, t.Burst) {
		return 0, false // more than any limit may owe, or than t's rate can express
	}
	after := scale(&t.Rate, before, t.Burst, w.Burst)
	if t.Most.Less(after) {
		// If only rounding put it above Most, t owes Most. Otherwise conversions to and
		// fro would give units away.
		up := t.Rate.Add(convert(w, t, least(&w.Rate)), least(&t.Rate))
		if exact := t.Rate.Sub(before, up); exact.Micros >= 0 && t.Most.Less(scale(&t.Rate, exact, t.Burst, w.Burst)) {
			return 0, false
		}
		after = t.Most
	}
	owe(t, s, now, now, after)
	if before.Less(after) {
		return unitsUp(&t.Rate, t.Rate.Sub(after, before)), true
	}
	return -unitsUp(&t.Rate, t.Rate.Sub(before, after)), true
}

// least returns the shortest Span of a rate.
func least(r *span.Rate) span.Span {
	if r.Den > 1 {
		return span.Span{Rem: 1}
	}
	return span.Span{Micros: 1}
}

// scale returns s·a/b, rounded up to the next Span of the rate. Its µs must fit an int64.
func scale(r *span.Rate, s span.Span, a, b int64) span.Span {
	micros, rest := span.MulDiv(s.Micros, a, b)
	part, parts := span.MulDiv(s.Rem, a, r.Den) // in 1/b µs, and in 1/Den of these
	micros, rest = micros+(rest+part)/b, (rest+part)%b
	rem, left := span.MulDiv(rest, r.Den, b)
	rem += ceilDiv(left+parts, b)
	return span.Span{Micros: micros + rem/r.Den, Rem: rem % r.Den}
}

// give gives units back in every state of the key, and returns the largest number of units
// given in one of them.
func (it *Item) give(now int64) int64 {
	given := counterOf(it.Term).give(it.Term, &it.State, now, it.Cost)
	it.Written = it.Written || given > 0
	for i := range it.Others {
		o := &it.Others[i]
		if o.Zero() {
			continue
		}
		w := o.By
		n := counterOf(w).give(w, o, now, it.Cost)
		o.By = w
		it.Written = it.Written || n > 0
		given = max(given, n)
	}
	return given
}

// add decides an OpAdd.
func (r *round) add() sluice.Decision {
	var most int64
	for i := range r.items {
		it := &r.items[i]
		void := it.void(r.now)
		given := it.give(r.now)
		if given > 0 {
			it.Void = void
		}
		it.spent = -given
		if i < r.req.Plan.Len() {
			most = max(most, given)
		}
	}
	d := r.describe()
	d.Spent = -most
	return d
}

// convert decides an OpConvert.
func (r *round) convert() sluice.Decision {
	var first int64 // the largest change under the first charge's limits
	for i := range r.items {
		it := &r.items[i]
		if !continuous(it.Term) || warms(it.Term) { // limits that share a warm-up have one rate
			continue
		}
		more, done := bucket{}.proportion(it.Term, &it.State, r.now)
		it.spent, it.Written = more, it.Written || done
		if i < r.req.Plan.Len() && max(more, -more) > max(first, -first) {
			first = more
		}
	}
	d := r.describe()
	d.Spent = first
	return d
}
