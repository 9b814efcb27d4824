// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// bucket is the generic cell rate algorithm (ITU-T I.371): the token bucket with
// continuous refill, and the leaky bucket, which has the same arithmetic. It keeps one
// instant, at which the bucket is full again. Each unit moves that instant on by
// Window/Quota. A cost fits if the instant stays within Burst units of now.
//
// State: Idle is that instant rounded up, A the remainder that was rounded
// away, in 1/Den µs, both at the rate of the limit that wrote the state. If several
// limits use the balance, or units are reserved, there are two more instants. From Last on
// a faster limit's rate counts; while Last lies ahead, it is the due instant of the latest
// reservation. Since is the instant from which on the writer has been the only limit.
type bucket struct{}

// bucketTime returns the exact instant at which the bucket is full, at the rate
// of its writer.
func bucketTime(s *State) span.Span {
	tat := span.Span{Micros: s.Idle, Rem: s.A}
	if tat.Rem > 0 {
		tat.Micros--
	}
	return tat
}

func setBucketTime(s *State, tat span.Span) { s.Idle, s.A = tat.Ceil(), tat.Rem }

// until returns the time from at to the instant tat, zero if tat has passed.
func until(r *span.Rate, tat span.Span, at int64) span.Span {
	d := r.Sub(tat, span.Span{Micros: at})
	if d.Micros < 0 {
		return span.Span{}
	}
	return d
}

// debt returns the units that s owes at instant at, as the time that they last at t's rate.
// It is no less than the units that the rule has not given out since its start.
func debt(t *sluice.Term, s *State, at int64) span.Span {
	d := owed(t, s, at)
	if s.fill != 0 {
		if least := until(&t.Rate, span.Span{Micros: s.fill, Rem: s.fillRem}, at); d.Less(least) {
			return least
		}
	}
	return d
}

// owed is debt without the rule's start. The balance of another limit drains at the faster
// of the two rates, but at t's rate only from Last on.
func owed(t *sluice.Term, s *State, at int64) span.Span {
	switch {
	case s.Zero() || s.B < 0:
		return span.Span{}
	case own(t, s):
		return until(&t.Rate, bucketTime(s), at)
	case s.Last == 0 || !faster(t, s.By):
		return convert(s.By, t, until(&s.By.Rate, bucketTime(s), at))
	}
	return until(&t.Rate, drained(t, s), at)
}

// drained returns when a balance that a slower limit wrote is zero at t's rate.
func drained(t *sluice.Term, s *State) span.Span {
	d := convert(s.By, t, until(&s.By.Rate, bucketTime(s), s.Last))
	return t.Rate.Add(span.Span{Micros: s.Last}, d)
}

// pending reports whether a reservation of another limit lies ahead of now, or t's first
// reservation in a balance of another limit, which drains at another rate until then.
func (bucket) pending(t *sluice.Term, s *State, now int64) bool {
	return s.Since > now || !own(t, s) && s.Last > now
}

func (b bucket) floor(t *sluice.Term, s *State, now, start int64) {
	least := t.Rate.Add(span.Span{Micros: start}, t.Rate.Times(t.InitialDeficit))
	if least.Ceil() > now {
		s.fill, s.fillRem = least.Micros, least.Rem
	}
}

func (bucket) instant(*sluice.Term, *State) int64 { return 0 }

func (bucket) arrive(*sluice.Term, *State) {}

// stepped compares with the furthest that s may be ahead: its Burst and Debt, or the time
// that its credit lasts. If Last is set, the charges of other limits may last longer, but
// Last is at most the longest reservation ahead.
func (bucket) stepped(t *sluice.Term, s *State, now int64) bool {
	w := writer(t, s)
	switch {
	case s.B < 0:
		return s.Last-now > maxWait || s.Idle-now > w.CreditFor.Microseconds()
	case s.Last > 0:
		return s.Last-now > maxWait
	}
	return s.Idle-now > w.Most.Ceil()
}

// emptied returns the time that an empty bucket owes.
func emptied(t *sluice.Term) span.Span {
	if t.Lent > 0 {
		return t.Most
	}
	return t.Reach
}

// clamp keeps the charges of other limits. Credit stays, because a bucket that was full then
// is full now.
func (bucket) clamp(t *sluice.Term, s *State, now int64) {
	w := writer(t, s)
	if s.B < 0 {
		s.Idle, s.Since, s.Last = min(s.Idle, now+w.CreditFor.Microseconds()), min(s.Since, now), min(s.Last, now)
		return
	}
	owes := emptied(w)
	if s.Last > 0 {
		if d := until(&w.Rate, bucketTime(s), s.Last); w.Most.Less(d) {
			owes = d
		}
	}
	if s.Last > 0 || s.Since > 0 {
		s.Since, s.Last = now, now
	}
	setBucketTime(s, w.Rate.Add(span.Span{Micros: now}, owes))
}

// meet records when a faster limit first saw the balance of another limit.
func (bucket) meet(t *sluice.Term, s *State, now int64) bool {
	if own(t, s) || s.Last > 0 || s.B < 0 || !faster(t, s.By) {
		return false
	}
	s.Last = now
	return true
}

func (bucket) counted(t *sluice.Term, s *State, now int64) int64 {
	if n := credit(t, s); n > 0 {
		return -n
	}
	return unitsUp(&t.Rate, debt(t, s, now))
}

func (bucket) insert(*sluice.Term, *State, int64, int64) {}

func (b bucket) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	if b.pending(t, s, now) {
		now = s.Last // no take overtakes a reservation
	}
	if s.fill != 0 {
		now = b.fitsAt(t, span.Span{Micros: s.fill, Rem: s.fillRem}, now, cost)
	}
	switch {
	case s.B < 0:
		if cost > t.Burst && now >= s.Idle {
			return never // the credit lapses before a reservation is due
		}
		return now
	case s.Zero():
		return now
	case own(t, s):
		return b.fitsAt(t, bucketTime(s), now, cost)
	case s.Last > 0 && faster(t, s.By):
		return b.fitsAt(t, drained(t, s), now, cost)
	}
	// The writer's rate is the faster one: find the first µs at which cost fits.
	room := t.Rate.Sub(t.Reach, t.Rate.Times(cost))
	fits := func(at int64) bool { return !room.Less(owed(t, s, at)) }
	at := max(now, bucketTime(s).Micros-convert(t, s.By, room).Micros)
	for range 4 { // conversions round by less than a µs each
		if at > now && fits(at-1) {
			at--
		}
	}
	for range 8 {
		if !fits(at) {
			at++
		}
	}
	return at
}

// fitsAt returns when cost fits a bucket that is full at tat.
func (bucket) fitsAt(t *sluice.Term, tat span.Span, now, cost int64) int64 {
	after := t.Rate.Add(tat, t.Rate.Times(cost))
	return max(now, t.Rate.Sub(after, t.Reach).Ceil())
}

// spend makes t the writer of the balance if t has room for all of it. Otherwise the units
// are charged into debt, and the writer stays.
func (b bucket) spend(t *sluice.Term, s *State, now, at, cost int64) {
	if s.B < 0 {
		b.spendCredit(t, s, now, at, cost)
		return
	}
	after := t.Rate.Add(debt(t, s, at), t.Rate.Times(cost))
	if !own(t, s) {
		w := s.By
		before := until(&w.Rate, bucketTime(s), at)
		if least := convert(t, w, until(&t.Rate, span.Span{Micros: s.fill, Rem: s.fillRem}, at)); before.Less(least) {
			before = least
		}
		if (t.Reach.Less(after) || s.Last > at) && w.Rate.Fits(cost, maxRefill) {
			if kept := w.Rate.Add(before, w.Rate.Times(cost)); kept.Micros <= maxRefill {
				setBucketTime(s, w.Rate.Add(span.Span{Micros: at}, kept))
				s.Last = max(s.Last, at)
				return
			}
		}
	}
	owe(t, s, now, at, after)
}

// owe makes t the writer of a balance that owes after at instant at.
func owe(t *sluice.Term, s *State, now, at int64, after span.Span) {
	extended := at > now || s.Last > 0 || s.Since > 0
	if !own(t, s) {
		s.By, s.Since, extended = nil, at, true
	}
	setBucketTime(s, t.Rate.Add(span.Span{Micros: at}, after))
	s.B = 0
	switch {
	case !extended:
	case at <= now && s.Last <= now && s.Since+remembers(t) <= now:
		s.Since, s.Last = 0, 0 // no receipt from before counts any more
	case at <= now && s.Last == 0 && t.Credit > 0: // Since is set in any case
	default:
		s.Last = max(s.Last, at)
	}
}

// deny raises the debt by cost, up to all of Burst and not only to whole units, so that a
// caller that asks faster than units come back never gets one. Under a reservation of
// another limit it changes nothing.
func (b bucket) deny(t *sluice.Term, s *State, now, cost int64) bool {
	if b.pending(t, s, now) {
		return false
	}
	before := debt(t, s, now)
	after := t.Rate.Add(before, t.Rate.Times(min(cost, t.Burst)))
	if t.Reach.Less(after) {
		after = t.Reach
	}
	if !before.Less(after) {
		return false
	}
	owe(t, s, now, now, after)
	return true
}

// refund gives back no more units than would be left had they never been taken: units that
// have drained since are refilled already. Later requests that are reserved or queued keep
// their instants, so units that drain until those instants are not given back either.
func (bucket) refund(t *sluice.Term, s *State, now int64, g grant) int64 {
	w := writer(t, s)
	if g.foreign || g.at < s.Since {
		return 0
	}
	held := min(g.held, w.Burst+w.Debt+w.Credit)
	if s.B < 0 {
		back := min(g.units, held, w.Credit+s.B)
		s.B -= back
		return back
	}
	start, early := g.at, int64(0)
	rounded := min(w.Rate.Den-1, 1) // 1 if a unit does not last whole µs: due instants are rounded up
	if w.Queues && g.due > g.at {
		// In a queue, the due instant says when the units begin to drain, whatever was
		// taken before.
		if behind := g.due - w.Rate.Times(max(held-w.DelayAfter, 0)).Ceil(); behind > start {
			start, early = behind, rounded
		}
	}
	gone := max(now-start+early, 0)
	if s.Last > max(g.at, now) {
		gone = max(gone, s.Last-start+early)
	}
	if w.Queues {
		// last is the instant at which the last unit of the queue is due.
		if last := w.Rate.Sub(bucketTime(s), w.Rate.Times(w.DelayAfter)).Ceil(); last > g.due+rounded {
			gone = max(gone, last-start+rounded)
		}
	}
	back := w.Rate.Sub(w.Rate.Times(held), span.Span{Micros: gone})
	if some := w.Rate.Times(min(g.units, held)); some.Less(back) {
		back = some
	}
	if all := until(&w.Rate, bucketTime(s), max(s.Last, now)); all.Less(back) {
		back = all
	}
	if back.Micros < 0 || back == (span.Span{}) {
		return 0
	}
	setBucketTime(s, w.Rate.Sub(bucketTime(s), back))
	if s.Last > 0 {
		s.Last = max(s.Last, now) // until now it drained at the writer's rate
	}
	if s.Idle <= now {
		s.rest()
	}
	return unitsUp(&w.Rate, back)
}

// unitsUp returns the number of units that last for d, rounded up.
func unitsUp(r *span.Rate, d span.Span) int64 {
	n := r.Units(d)
	if r.Times(n).Less(d) {
		n++
	}
	return n
}

func (bucket) resetAfter(t *sluice.Term, s *State, now int64) int64 {
	idle := s.Idle
	if s.B < 0 && t.Credit == 0 {
		idle = 0 // fully refilled
	}
	if !s.Zero() && s.B >= 0 && !own(t, s) && s.Last > 0 && faster(t, s.By) {
		idle = drained(t, s).Ceil()
	}
	if s.fill != 0 {
		idle = max(idle, span.Span{Micros: s.fill, Rem: s.fillRem}.Ceil())
	}
	return max(idle-now, 0)
}

func (bucket) horizon(t *sluice.Term) int64 { return remembers(t) + maxWait }

// remembers returns how long a state of t keeps Since: as long as an earlier receipt could
// give units back, and as long as credit lasts.
func remembers(t *sluice.Term) int64 {
	if t.Credit == 0 {
		return t.Most.Ceil()
	}
	return max(t.Rate.Times(t.Burst+t.Debt+t.Credit).Ceil(), t.CreditFor.Microseconds())
}
