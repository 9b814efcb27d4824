// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import "github.com/sluicegate/sluice"

// intervalBucket is the token bucket that gives Quota units back at once every
// Window, counted from the take that found it full.
//
// State: A is the units missing from the burst when the state was written,
// Idle the instant of the refill that makes it full again, whole windows
// behind the refills before it.
type intervalBucket struct{}

// written returns the instant of a refill as of which A units were missing.
func (intervalBucket) written(t *sluice.Term, s *State) int64 {
	return s.Idle - lag(t) - ceilDiv(s.A, t.Quota)*t.Micros
}

// missing returns the units missing at now and how many refills make up for
// them. Where now lies before the state, because of a reservation or as the
// clock stepped back, the refills up to the state are missing too.
func (b intervalBucket) missing(t *sluice.Term, s *State, now int64) (units, refills int64) {
	if s.Zero() {
		return 0, 0
	}
	refills = max(ceilDiv(s.Idle-lag(t)-now, t.Micros), 0)
	passed := ceilDiv(s.A, t.Quota) - refills
	if passed < 0 {
		return add(s.A, times(t.Quota, -passed)), refills
	}
	return max(s.A-passed*t.Quota, 0), refills
}

func (b intervalBucket) first(t *sluice.Term, s *State, now int64) {
	if t.Withheld > 0 {
		s.A = t.Withheld
		s.Idle = now + ceilDiv(t.Withheld, t.Quota)*t.Micros + lag(t)
	}
}

func (intervalBucket) instant(*sluice.Term, *State) int64 { return 0 }

func (b intervalBucket) counted(t *sluice.Term, s *State, now int64) int64 {
	units, _ := b.missing(t, s, now)
	return units
}

func (b intervalBucket) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	return max(now, b.written(t, s)+ceilDiv(s.A+cost-t.Burst, t.Quota)*t.Micros)
}

func (b intervalBucket) spend(t *sluice.Term, s *State, _, at, cost int64) {
	units, refills := b.missing(t, s, at)
	b.set(t, s, at, units+cost, refills)
}

// set makes the state miss units, on the grid of refills that it has, of which
// there are refills to come; with none a new grid starts at now.
func (intervalBucket) set(t *sluice.Term, s *State, now, units, refills int64) {
	last := now // the instant of a refill, or the start of the grid
	if refills > 0 {
		last = s.Idle - lag(t) - refills*t.Micros
	}
	s.A = units
	s.Idle = last + ceilDiv(units, t.Quota)*t.Micros + lag(t)
}

func (b intervalBucket) refund(t *sluice.Term, s *State, now, at, _, units int64) int64 {
	missing, refills := b.missing(t, s, now)
	if missing == 0 {
		return 0
	}
	// Refills up to the instant of the last reservation are promised too.
	grid, until := s.Idle-lag(t), max(now, b.written(t, s))
	passed := floorDiv(until-grid, t.Micros) - floorDiv(min(at, until)-grid, t.Micros)
	back := min(missing, units)
	if passed > 0 {
		if passed >= ceilDiv(units, t.Quota) {
			return 0
		}
		back = min(missing, units-passed*t.Quota)
	}
	switch written := b.written(t, s); {
	case now < written:
		// What was given back is there when the reservation's turn has come,
		// and until then nobody overtakes.
		back = min(back, s.A)
		s.A -= back
		s.Idle = written + ceilDiv(s.A, t.Quota)*t.Micros + lag(t)
	case missing == back && lag(t) == 0:
		s.clear()
	default:
		b.set(t, s, now, missing-back, refills)
	}
	return back
}

func (intervalBucket) horizon(t *sluice.Term) int64 {
	return (ceilDiv(t.Burst+t.Debt, t.Quota)+1)*t.Micros + maxWait + lag(t)
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
