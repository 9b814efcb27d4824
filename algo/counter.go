// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// never is the instant at which a cost fits that is more than a limit holds.
const never = math.MaxInt64

// counter is what the algorithms have in common. Implementations keep nothing:
// all they know is in the term and the state. A state given to them is not
// idle at now; the zero state is a key without one.
type counter interface {
	// floor sets in s what a limit sees that withholds units at its start.
	floor(t *sluice.Term, s *State, now, start int64)
	// instant returns the moment a windowed state stands at: what is decided
	// before it is decided as of it. A bucket stands at no moment: 0.
	instant(t *sluice.Term, s *State) int64
	// arrive drops what a reservation that was cancelled has left of s, once its
	// instant has come.
	arrive(t *sluice.Term, s *State)
	// stepped reports whether s lies further ahead of now than its limit allows: then
	// the clock has stepped back since. clamp makes such a one empty from now on, without
	// debt: nothing is left to take.
	stepped(t *sluice.Term, s *State, now int64) bool
	clamp(t *sluice.Term, s *State, now int64)
	// meet notes in s what t must know to decide again over a state that
	// another limit wrote. It reports whether it did.
	meet(t *sluice.Term, s *State, now int64) bool
	// pending reports whether t must wait for another limit's reservation, or
	// for the end of a block.
	pending(t *sluice.Term, s *State, now int64) bool
	// counted returns how many units count against the limit at now: full less
	// these is the largest cost that fits.
	counted(t *sluice.Term, s *State, now int64) int64
	// earliest returns the first instant from now on at which cost fits if
	// nothing else comes. Cost is at most what the limit holds, without what it
	// lends.
	earliest(t *sluice.Term, s *State, now, cost int64) int64
	// spend counts cost, which is positive, at instant at ≥ now.
	spend(t *sluice.Term, s *State, now, at, cost int64)
	// insert counts cost at an instant before the one that s stands at.
	insert(t *sluice.Term, s *State, at, cost int64)
	// deny counts a denied cost, which is positive, at now, as far as the limit is
	// not full. It reports whether that has changed s.
	deny(t *sluice.Term, s *State, now, cost int64) bool
	// refund takes back units, as far as they still count, and returns how
	// many those were, a part of one counted as a whole.
	refund(t *sluice.Term, s *State, now int64, g grant) int64
	// give gives units back without a receipt, as far as they count, the newest
	// first, and in a bucket the rest as credit. It returns how many it gave.
	give(t *sluice.Term, s *State, now, units int64) int64
	// resetAfter returns how long it takes until s is idle.
	resetAfter(t *sluice.Term, s *State, now int64) int64
	// horizon returns how far ahead of now a state may be idle at most.
	horizon(t *sluice.Term) int64
}

// grant is what a refund gives back.
type grant struct {
	at  int64 // when the units were counted
	due int64 // when a queue let them go on; elsewhere at
	// units are given back of those that the receipt holds.
	units, held int64
	foreign     bool // another limit wrote the state
}

// counterOf returns the algorithm of t.
func counterOf(t *sluice.Term) counter {
	switch t.Kind {
	case compiled.FixedWindow:
		return fixedWindow{}
	case compiled.SlidingCounter:
		return slidingCounter{}
	case compiled.SlidingLog, compiled.SlidingHistogram:
		return slidingLog{}
	case compiled.Block:
		return block{}
	default:
		if t.Refill != sluice.Continuous {
			return intervalBucket{}
		}
		if warms(t) {
			return warmBucket{}
		}
		return bucket{}
	}
}

// full returns how many units an idle key has: what is spent beyond them is
// debt.
func full(t *sluice.Term) int64 {
	switch {
	case t.Burst > 0:
		return t.Burst
	case blocks(t):
		return sluice.MaxQuota
	}
	return t.Quota
}

// maxWait is [sluice.MaxWait] in µs.
const maxWait = int64(sluice.MaxWait / 1000)

// latest is [bounds.Latest].
const latest = bounds.Latest

// clamp returns the instant at which a decision of now is made.
func clamp(now int64) int64 { return min(max(now, 0), latest) }

// maxRefill is [bounds.MaxRefill] in µs.
const maxRefill = int64(bounds.MaxRefill / 1000)

// prepare readies it for a decision at now: what is idle is forgotten, and a
// state too far ahead is one from before the clock stepped back and starts over
// empty. A form that the key has no state in starts with what the
// others know.
func (it *Item) prepare(now int64) {
	it.Written, it.met, it.on, it.spent = false, false, nil, 0
	changed := !it.State.Zero() && settle(counterOf(it.Term), it.Term, &it.State, now)
	idle := it.State.Zero()
	if s := &it.State; s.Zero() && s.Since-now > maxWait {
		s.Since = now // the clock stepped back: nothing is reserved for so long
	} else if s.Zero() && it.Term.Credit > 0 {
		s.Since = now // receipts of credit that is gone are not of this balance
	}
	if len(it.Others) > 0 {
		it.prepareOthers(now)
	}
	// Beside others that live an idle state need not be forgotten at once. Nor may
	// it: what the limit is about to see of theirs would be kept where nothing is
	// spent.
	it.Written = changed && !(idle && len(it.Others) > 0)
}

// settle brings s, which t or another limit of its form has written, to now. It
// reports whether that is a change to be kept.
func settle(c counter, t *sluice.Term, s *State, now int64) bool {
	switch {
	case s.Idle <= now:
		s.rest()
		return true
	case c.stepped(t, s, now):
		c.clamp(t, s, now)
		return true
	case s.Reserved && c.instant(t, s) <= now:
		s.Reserved = false
		c.arrive(t, s)
	}
	if t.Kind == compiled.SlidingCounter {
		slidingCounter{}.pay(t, s, now)
	}
	return false
}

// see makes it what the limit sees: a form that the key has no state in starts
// with what others know, a limit may meet a balance that another wrote, and no
// key has more than the rule has given out since its start. A denial keeps that
// a balance was met, and nothing else of that.
func (it *Item) see(now int64) {
	c := counterOf(it.Term) // not before: there may be no room for the limit's own form
	if len(it.Others) > 0 {
		it.seedFrom(now)
	}
	if s := &it.State; s.By != nil && !s.Zero() {
		it.met = c.meet(it.Term, s, now)
	}
	it.State.fill = 0
	if t := it.Term; (t.InitialDeficit > 0 || t.PreFilled) && it.Start > 0 {
		c.floor(t, &it.State, now, min(it.Start, now))
	}
}

// clear makes s a new state. Its ring stays as it is: the memory is the
// store's, which may keep the old state if all this is not written.
func (s *State) clear() { *s = State{} }

// rest makes s a state that owes nothing, which still shows whose receipts
// count.
func (s *State) rest() { *s = State{Since: s.Since} }

// remaining returns how many units a take at now may spend.
func (it *Item) remaining(c counter, now int64) int64 {
	if it.State.Reserved || c.pending(it.Term, &it.State, now) {
		return 0 // nobody overtakes a reservation
	}
	left := full(it.Term) - c.counted(it.Term, &it.State, now)
	if left < 0 {
		return 0
	}
	return left + it.Term.Lent
}

// resetAfter returns how long it takes until the key is fully refilled, in µs.
func (it *Item) resetAfter(c counter, now int64) int64 {
	if it.State.Zero() && it.State.fill == 0 {
		return 0
	}
	return c.resetAfter(it.Term, &it.State, now)
}

// earliest returns when the item's cost fits, or never.
func (it *Item) earliest(c counter, now, cost int64) int64 {
	lent := it.Term.Lent
	if most := full(it.Term) + lent; cost > most && cost > most+credit(it.Term, &it.State) {
		return never
	}
	if it.State.Zero() && it.State.fill == 0 {
		return now
	}
	// Where the next waits, a take needs room for what it costs above Debt: so
	// nothing is owed above Burst before it, and no more than Debt behind it.
	return c.earliest(it.Term, &it.State, now, max(cost-lent, 0))
}

// spend counts cost at instant at in every state of the key.
func (it *Item) spend(c counter, now, at, cost int64) {
	if cost <= 0 || blocks(it.Term) {
		return
	}
	c.spend(it.Term, &it.State, now, at, cost)
	it.Written = true
	it.sign()
	for i := range it.Others {
		spendOther(&it.Others[i], now, at, cost)
	}
}

// sign makes the limit the state's writer in whose state it counts.
func (it *Item) sign() {
	if it.on != nil && it.on.Kind == compiled.SlidingCounter {
		slidingCounter{}.sign(it.Term, &it.State, it.on)
	} else if it.on != nil {
		it.State.By = it.on
	}
}

// windows is what the windowed algorithms have in common.
type windows struct{}

func (windows) floor(*sluice.Term, *State, int64, int64)             {}
func (windows) meet(*sluice.Term, *State, int64) bool                { return false }
func (windows) pending(*sluice.Term, *State, int64) bool             { return false }
func (windows) resetAfter(_ *sluice.Term, s *State, now int64) int64 { return max(s.Idle-now, 0) }

// tooFar reports whether a windowed state, which stands at an instant, is too far ahead of
// now: by more than a window, and the longest wait of a reservation if it has one. One that
// has units left is ahead by up to a window, so that these can be taken at once.
func tooFar(s *State, at, now, window int64) bool {
	if s.Reserved {
		window += maxWait
	}
	return at-now > window
}

// stuck reports whether such a state, which is ahead of now, has a unit only at an instant that
// lies behind a window from now.
func stuck(s *State, free, now, window int64) bool {
	return !s.Reserved && free-now > window
}

// clampWindow makes s, from before the clock stepped back, count as of now all that t and
// its writer have without debt.
func clampWindow(c counter, t *sluice.Term, s *State, now int64) {
	units := max(full(t), full(writer(t, s)))
	*s = State{By: s.By}
	c.spend(t, s, now, now, units)
}

// Ahead reports whether a state of the item lies further ahead of now than its limit
// allows. [Decide] takes that for a clock that stepped back. A store whose clock does not
// reads it again: another caller may have read it later, and have come first.
func (it *Item) Ahead(now int64) bool {
	if s := &it.State; s.Idle > now && counterOf(it.Term).stepped(it.Term, s, now) {
		return true
	}
	for i := range it.Others {
		if o := &it.Others[i]; o.Idle > now && counterOf(o.By).stepped(o.By, o, now) {
			return true
		}
	}
	return false
}
