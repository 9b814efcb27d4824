// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// warmBucket is a bucket whose units last longer while its key is cold (Guava's
// SmoothWarmingUp). Each unit uses as much of the WarmUp as it lasts when warm, and
// lasts longer by the decrease of [chill] over that use. While a key owes nothing, a µs
// of the used WarmUp comes back in each µs.
//
// State: B is the used part of the WarmUp, in whole µs, more than 0, at the
// instant at which the key owes nothing. That instant is Idle − B, rounded up; A is the
// remainder that was rounded away, as in a bucket. At Idle the key is cold. Since and Last
// are as in a bucket. Limits that share a state have one rate.
type warmBucket struct{}

// warms reports whether t is a bucket whose keys warm up.
func warms(t *sluice.Term) bool { return t.WarmUp > 0 }

// chill returns the additional time, in whole µs, that all units together take until the
// key is warm, compared with a warm key. The first unit of a cold key lasts about three times
// as long, the units from half of the WarmUp on last no longer. In between the time falls
// evenly, so for a cold key chill is half a WarmUp. The sum over several takes is the same
// as for one, so rounding errors do not add up.
func chill(t *sluice.Term, used int64) int64 {
	all := t.WarmUp.Microseconds()
	above := all - 2*used // twice the unused part of the first half
	if above <= 0 {
		return 0
	}
	longer, _ := span.MulDiv(above, above, 2*all)
	return longer
}

// used returns the used part of the WarmUp at an instant, in µs.
func (warmBucket) used(s *State, at int64) int64 { return min(s.B, max(s.Idle-at, 0)) }

// unwarmed returns s as a bucket without warm-up would keep it.
func (warmBucket) unwarmed(s *State) State {
	b := *s
	b.Idle, b.B = s.Idle-s.B, 0
	return b
}

func (warmBucket) floor(*sluice.Term, *State, int64, int64) {}

func (warmBucket) instant(*sluice.Term, *State) int64 { return 0 }

func (warmBucket) arrive(*sluice.Term, *State) {}

func (warmBucket) insert(*sluice.Term, *State, int64, int64) {}

func (warmBucket) meet(*sluice.Term, *State, int64) bool { return false }

func (warmBucket) deny(*sluice.Term, *State, int64, int64) bool { return false } // Validate refuses CountDenied

func (warmBucket) pending(t *sluice.Term, s *State, now int64) bool {
	return bucket{}.pending(t, s, now)
}

func (b warmBucket) stepped(t *sluice.Term, s *State, now int64) bool {
	if s.Last > 0 {
		return s.Last-now > maxWait
	}
	return s.Idle-s.B-now > writer(t, s).Most.Ceil()+chill(t, 0)
}

// clamp does not change how warm the key is.
func (b warmBucket) clamp(t *sluice.Term, s *State, now int64) {
	used := s.B
	*s = b.unwarmed(s)
	bucket{}.clamp(t, s, now)
	s.Idle, s.B = s.Idle+used, used
}

// owed is as in a bucket, at the one rate of all limits that write the state.
func (b warmBucket) owed(t *sluice.Term, s *State, at int64) span.Span {
	paid := b.unwarmed(s)
	return until(&t.Rate, bucketTime(&paid), at)
}

func (b warmBucket) counted(t *sluice.Term, s *State, now int64) int64 {
	return unitsUp(&t.Rate, b.owed(t, s, now))
}

func (b warmBucket) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	if b.pending(t, s, now) {
		now = s.Last // no take overtakes a reservation
	}
	paid := b.unwarmed(s)
	return bucket{}.fitsAt(t, bucketTime(&paid), now, cost)
}

// spend moves the instant at which all is paid by the time that cost lasts when warm and
// by the decrease of chill. As in a bucket, t becomes the writer if it has room for cost.
func (b warmBucket) spend(t *sluice.Term, s *State, now, at, cost int64) {
	before, owed := b.used(s, at), b.owed(t, s, at)
	after := t.Rate.Add(owed, t.Rate.Times(cost))
	if !s.Zero() && !own(t, s) && (t.Reach.Less(after) || s.Last > at) {
		setBucketTime(s, t.Rate.Add(span.Span{Micros: at}, after))
		s.Last = max(s.Last, at)
	} else {
		owe(t, s, now, at, after)
	}
	s.B = min(before+after.Ceil()-owed.Ceil(), t.WarmUp.Microseconds())
	s.Idle += chill(t, before) - chill(t, s.B) + s.B
}

// refund gives back the time that the units last when warm. The key stays as warm as they
// made it.
func (b warmBucket) refund(t *sluice.Term, s *State, now int64, g grant) int64 {
	paid := b.unwarmed(s)
	back := bucket{}.refund(t, &paid, now, g)
	if back > 0 {
		s.Idle, s.A, s.Last = max(paid.Idle, now)+s.B, paid.A, paid.Last
	}
	return back
}

// give gives owed units back, as refund does. A warm-up has no credit.
func (b warmBucket) give(t *sluice.Term, s *State, now, units int64) int64 {
	paid := b.unwarmed(s)
	given := bucket{}.reduceDebt(t, &paid, now, units)
	if given > 0 {
		used := s.B
		*s = paid
		s.Idle, s.B = max(paid.Idle, now)+used, used
	}
	return given
}

func (warmBucket) resetAfter(_ *sluice.Term, s *State, now int64) int64 {
	return max(s.Idle-now, 0)
}

func (warmBucket) horizon(t *sluice.Term) int64 {
	return t.Most.Ceil() + t.WarmUp.Microseconds() + chill(t, 0) + maxWait
}
