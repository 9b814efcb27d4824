// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// intervalBucket is the token bucket that gives Quota units back at once every
// Window, counted from the take that found it full, or by the clock.
//
// State: A is the number of units missing from the burst when the state was written,
// Idle the instant of the refill that makes it full again. The refills are whole windows
// apart. Since is as in a bucket. Last is 1 while units are reserved ahead.
type intervalBucket struct{}

// written returns the instant of the last refill: A units were missing after it. It lies ahead
// of now only if units are reserved.
func (intervalBucket) written(t *sluice.Term, s *State) int64 {
	return s.Idle - ceilDiv(s.A, writer(t, s).Quota)*t.Micros
}

// base returns the instant from which refills are counted if the first unit is missing at
// an instant: that instant or, with Aligned, the last refill of the clock up to it.
func (intervalBucket) base(t *sluice.Term, at int64) int64 {
	if t.Refill == sluice.Aligned {
		return at - at%t.Micros
	}
	return at
}

// missing returns the units missing at now. A state of another limit refills at the larger
// of the two quotas. If now lies before the state, because of a reservation or because the
// clock stepped back, the refills up to the state are missing too.
func (b intervalBucket) missing(t *sluice.Term, s *State, now int64) int64 {
	missing := int64(0)
	if !s.Zero() {
		refills := floorDiv(now-b.written(t, s), t.Micros)
		if refills < 0 {
			return add(s.A, times(writer(t, s).Quota, -refills))
		}
		missing = max(s.A-times(max(t.Quota, writer(t, s).Quota), refills), 0)
	}
	if s.fill != 0 {
		missing = max(missing, b.deficit(t, s, now))
	}
	return missing
}

// deficit returns the units that the rule has not given out since its start.
func (b intervalBucket) deficit(t *sluice.Term, s *State, now int64) int64 {
	return max(t.InitialDeficit-times(t.Quota, floorDiv(now-b.base(t, s.fill), t.Micros)), 0)
}

// pending is as in a bucket.
func (b intervalBucket) pending(t *sluice.Term, s *State, now int64) bool {
	return s.Since > now || !own(t, s) && b.written(t, s) > now
}

func (b intervalBucket) floor(t *sluice.Term, s *State, now, start int64) {
	if b.base(t, start)+ceilDiv(t.InitialDeficit, t.Quota)*t.Micros > now {
		s.fill = start
	}
}

func (intervalBucket) insert(*sluice.Term, *State, int64, int64) {}

func (intervalBucket) instant(*sluice.Term, *State) int64 { return 0 }

func (intervalBucket) arrive(*sluice.Term, *State) {}

func (b intervalBucket) stepped(t *sluice.Term, s *State, now int64) bool {
	w := writer(t, s)
	most := ceilDiv(max(w.Burst+w.Debt, s.A), w.Quota) * t.Micros // another limit's debt may be more
	if s.Last > 0 {
		most += maxWait
	}
	return s.Since-now > maxWait || s.Idle-now > most
}

func (b intervalBucket) clamp(t *sluice.Term, s *State, now int64) {
	w := writer(t, s)
	if s.A <= w.Burst+w.Debt { // otherwise another limit has charged more
		s.A = w.Burst + w.Lent
	}
	s.Idle, s.Last = b.base(t, now)+ceilDiv(s.A, w.Quota)*t.Micros, 0
	if s.Since > 0 {
		s.Since = now
	}
}

func (intervalBucket) meet(*sluice.Term, *State, int64) bool { return false }

func (b intervalBucket) counted(t *sluice.Term, s *State, now int64) int64 {
	return b.missing(t, s, now)
}

func (b intervalBucket) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	at := now
	if !s.Zero() {
		written := b.written(t, s)
		at = max(at, written+ceilDiv(s.A+cost-t.Burst, max(t.Quota, writer(t, s).Quota))*t.Micros)
		if b.pending(t, s, now) {
			at = max(at, written, s.Since) // Since may lie between two refills
		}
	}
	if s.fill != 0 {
		at = max(at, b.base(t, s.fill)+ceilDiv(t.InitialDeficit+cost-t.Burst, t.Quota)*t.Micros)
	}
	return at
}

// spend keeps the instants of the refills. As in a bucket, t becomes the writer if it has
// room.
func (b intervalBucket) spend(t *sluice.Term, s *State, now, at, cost int64) {
	units := b.missing(t, s, at)
	last := b.base(t, at) // the instant of a refill: a new grid may start with the first unit
	switch {
	case units == 0:
	case s.fill != 0 && units == b.deficit(t, s, at):
		first := b.base(t, s.fill)
		last = first + floorDiv(at-first, t.Micros)*t.Micros
	default:
		last = s.Idle - ceilDiv(s.Idle-at, t.Micros)*t.Micros
	}
	units += cost
	quota := t.Quota
	if w := writer(t, s); !s.Zero() && !own(t, s) {
		if (units > t.Burst || b.pending(t, s, at)) && ceilDiv(units, w.Quota) <= maxRefill/t.Micros {
			quota = w.Quota
		} else {
			s.By, s.Since = nil, at
		}
	}
	s.A = units
	s.Idle = last + ceilDiv(units, quota)*t.Micros
	if at > now {
		s.Last = 1
	} else if b.written(t, s) <= now {
		s.Last = 0
	}
	if own(t, s) && at <= now && s.Since+b.horizon(t) <= now {
		s.Since = 0
	}
}

// count is CountTake without the decision. It returns the units left before the take and
// the instant at which cost fits, and counts cost if that is now. ok is false if units are
// reserved or the clock has stepped back.
func (b intervalBucket) count(t *sluice.Term, s *State, now, cost int64) (left, at int64, ok bool) {
	all := ceilDiv(s.A, t.Quota)                                                // refills until it is full
	ahead := t.Rate.UnitsOf(span.Span{Micros: s.Idle - now - 1}, t.Inverse) + 1 // those after now
	if s.Since != 0 || ahead > all {
		return 0, 0, false
	}
	missing, last := s.A-(all-ahead)*t.Quota, s.Idle-ahead*t.Micros
	left = t.Burst - missing
	if cost > left {
		return left, last + ceilDiv(cost-left, t.Quota)*t.Micros, true
	}
	if cost > 0 {
		s.A, s.Last = missing+cost, 0
		s.Idle = last + ceilDiv(s.A, t.Quota)*t.Micros
	}
	return left, now, true
}

// deny counts cost until the burst is spent. Then the next refill comes a Window
// from now, so that a caller that asks more often never gets it.
func (b intervalBucket) deny(t *sluice.Term, s *State, now, cost int64) bool {
	missing := b.missing(t, s, now)
	switch {
	case b.pending(t, s, now), !s.Zero() && b.written(t, s) > now, missing > t.Burst && !own(t, s):
		return false // units are reserved, or another limit has charged more than t's Burst
	case cost < t.Burst-missing:
		b.spend(t, s, now, now, cost)
		return true
	}
	if !own(t, s) {
		s.By, s.Since = nil, now
	}
	s.A = max(missing, t.Burst)
	s.Idle = now + ceilDiv(s.A, t.Quota)*t.Micros
	if s.Since+b.horizon(t) <= now {
		s.Since = 0
	}
	return true
}

// refund is as in a bucket. Refills up to the instant of the last reservation
// are promised too.
func (b intervalBucket) refund(t *sluice.Term, s *State, now int64, g grant) int64 {
	w := writer(t, s)
	missing := b.missing(w, s, now)
	if missing == 0 || g.foreign || g.at < s.Since {
		return 0
	}
	held := min(g.held, w.Burst+w.Debt)
	written := b.written(t, s)
	until := max(now, written)
	passed := floorDiv(until-s.Idle, t.Micros) - floorDiv(min(g.at, until)-s.Idle, t.Micros)
	back := min(missing, g.units, held-times(w.Quota, passed))
	if back <= 0 {
		return 0
	}
	if now < written {
		// The units are available from the reservation's instant on. Until then no
		// take overtakes it.
		back = min(back, s.A)
		s.A -= back
		s.Idle = written + ceilDiv(s.A, w.Quota)*t.Micros
		return back
	}
	last := s.Idle - ceilDiv(s.Idle-now, t.Micros)*t.Micros
	if s.A = missing - back; s.A == 0 {
		s.rest()
		return back
	}
	s.Idle = last + ceilDiv(s.A, w.Quota)*t.Micros
	return back
}

func (b intervalBucket) give(t *sluice.Term, s *State, now, units int64) int64 {
	missing, written := b.missing(t, s, now), b.written(t, s)
	if now < written { // after the reserved instant
		missing = s.A
	}
	back := min(missing, units)
	if s.Zero() || back == 0 {
		return 0
	}
	if s.Since > 0 { // older receipts may be of units that are given back here
		s.Since = max(s.Since, now)
	}
	if now >= written {
		if missing == back {
			s.rest()
			return back
		}
		written = s.Idle - ceilDiv(s.Idle-now, t.Micros)*t.Micros
	}
	s.A = missing - back
	s.Idle = written + ceilDiv(s.A, writer(t, s).Quota)*t.Micros
	return back
}

func (b intervalBucket) resetAfter(t *sluice.Term, s *State, now int64) int64 {
	idle := int64(0)
	if !s.Zero() {
		idle = b.written(t, s) + ceilDiv(s.A, max(t.Quota, writer(t, s).Quota))*t.Micros
	}
	if s.fill != 0 {
		idle = max(idle, b.base(t, s.fill)+ceilDiv(t.InitialDeficit, t.Quota)*t.Micros)
	}
	return max(idle-now, 0)
}

func (intervalBucket) horizon(t *sluice.Term) int64 {
	return (ceilDiv(t.Burst+t.Debt, t.Quota)+1)*t.Micros + maxWait
}

// ceilDiv returns a/b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	if a > 0 {
		return (a-1)/b + 1
	}
	return a / b
}

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
