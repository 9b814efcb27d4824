// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// never is the instant at which a cost fits that is more than a limit holds.
const never = math.MaxInt64

// counter is what the algorithms have in common. Implementations keep nothing:
// all they know is in the term and the state. A state given to them is not
// idle at now; the zero state is a key that was never seen and, but for first,
// one that has everything.
type counter interface {
	// first makes the state of a key seen for the first time, where that is
	// not the zero state.
	first(t *sluice.Term, s *State, now int64)
	// instant returns the moment a windowed state stands at: what is decided
	// before it is decided as of it. A bucket stands at no moment: 0.
	instant(t *sluice.Term, s *State) int64
	// counted returns how many units count against the limit at now: full less
	// these is the largest cost that fits.
	counted(t *sluice.Term, s *State, now int64) int64
	// earliest returns the first instant from now on at which cost fits if
	// nothing else comes. Cost is at most what the limit holds.
	earliest(t *sluice.Term, s *State, now, cost int64) int64
	// spend counts cost, which is positive, at instant at ≥ now.
	spend(t *sluice.Term, s *State, now, at, cost int64)
	// refund takes back units spent at instant at, as far as they still
	// count, and returns how many those were, rounded down. A queue let them
	// go on at instant due; elsewhere that is at.
	refund(t *sluice.Term, s *State, now, at, due, units int64) int64
	// horizon returns how far ahead of now a state may be idle at most.
	horizon(t *sluice.Term) int64
}

// counterOf returns the algorithm of t.
func counterOf(t *sluice.Term) counter {
	switch t.Algorithm {
	case sluice.FixedWindow:
		return fixedWindow{}
	case sluice.SlidingCounter:
		return slidingCounter{}
	case sluice.SlidingLog, sluice.SlidingHistogram:
		return slidingLog{}
	default:
		if t.Refill == sluice.Interval {
			return intervalBucket{}
		}
		return bucket{}
	}
}

// full returns how many units a rested key may spend at once.
func full(t *sluice.Term) int64 {
	if t.Burst > 0 {
		return t.Burst
	}
	return t.Quota
}

// lag is how long a state is kept after it is as good as new: where a
// never-seen key starts with less, forgetting at once would take units away.
func lag(t *sluice.Term) int64 {
	if t.Withheld > 0 || t.PreFilled {
		return t.Micros
	}
	return 0
}

// maxWait is [sluice.MaxWait] in µs.
const maxWait = int64(sluice.MaxWait / 1000)

// latest is the last instant that there is, in the year 2112: with what is
// reserved for later, instants take 52 bits.
const latest = 1<<52 - 1 - maxWait

// clamp returns the instant at which a decision of now is made.
func clamp(now int64) int64 { return min(max(now, 0), latest) }

// prepare readies it for a decision at now: what is idle is forgotten, a state
// too far ahead is one from before the clock stepped back and starts over
// fully in debt, and a key seen for the first time gets its initial state.
func (it *Item) prepare(c counter, now int64) {
	s := &it.State
	it.Written = false
	if !s.Zero() {
		switch ahead := s.Idle - now; {
		case ahead <= 0:
			s.clear()
			it.Written = true
		case ahead > c.horizon(it.Term):
			s.clear()
			c.spend(it.Term, s, now, now, full(it.Term)+it.Term.Debt)
			it.Written = true
		case s.Reserved && c.instant(it.Term, s) <= now:
			s.Reserved = false
		}
	}
	if s.Zero() && lag(it.Term) > 0 {
		c.first(it.Term, s, now)
		it.Written = true
	}
}

// clear makes s a never-seen state. Its ring stays as it is: the memory is the
// store's, which may keep the old state if all this is not written.
func (s *State) clear() { *s = State{} }

// remaining returns how many units a take at now may spend.
func (it *Item) remaining(c counter, now int64) int64 {
	if it.State.Reserved {
		return 0 // nobody overtakes a reservation
	}
	return max(full(it.Term)-c.counted(it.Term, &it.State, now), 0)
}

// resetAfter returns how long it takes until the key is as good as new, in µs.
func (it *Item) resetAfter(now int64) int64 {
	if it.State.Zero() {
		return 0
	}
	return max(it.State.Idle-lag(it.Term)-now, 0)
}

// earliest returns when the item's cost fits, or never.
func (it *Item) earliest(c counter, now, cost int64) int64 {
	if cost > full(it.Term) {
		return never
	}
	if it.State.Zero() {
		return now
	}
	return c.earliest(it.Term, &it.State, now, cost)
}

// Carry returns what state s, written under the limit from, is worth under the
// limit to: the units it still counts, rounded up, become one charge at now on
// a key seen for the first time. What is more than the new limit holds is debt,
// so that two limits used in turn admit no more than the larger one does.
// Where units are reserved, or a bucket is in debt, the charge is at the
// instant at which the next would have had its turn.
func Carry(from, to *sluice.Term, s *State, now int64) State {
	now = clamp(now)
	old := Item{Term: from, State: *s}
	c := counterOf(from)
	old.prepare(c, now)
	fresh := Item{Term: to}
	at, units := now, int64(0)
	if !old.State.Zero() {
		if old.State.Reserved || from.Burst > 0 {
			at = min(c.earliest(from, &old.State, now, 0), now+maxWait)
		}
		units = c.counted(from, &old.State, at)
		if at > now {
			units = max(units, 1) // what is to be decided no earlier needs a state to say so
		}
	}
	c = counterOf(to)
	fresh.prepare(c, now)
	units = min(units, carries(to, at-now))
	if !fresh.State.Zero() { // what a key starts with less counts too
		units = min(units, carries(to, at-now)-c.counted(to, &fresh.State, at))
	}
	if units > 0 {
		c.spend(to, &fresh.State, now, at, units)
	}
	return fresh.State
}

// carries returns the most units that a state of t may hold which are charged
// ahead of now: within the horizon of a bucket and the room of its form.
func carries(t *sluice.Term, ahead int64) int64 {
	switch {
	case t.Burst > 0 && t.Refill == sluice.Interval:
		return t.Burst + t.Debt
	case t.Burst > 0:
		return t.Rate.Units(t.Rate.Add(t.Most, span.Span{Micros: maxWait - ahead}))
	case Shape(t) == FormDuo:
		return 1<<32 - 1
	default:
		return math.MaxInt64
	}
}
