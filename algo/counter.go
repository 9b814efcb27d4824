// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// never is the instant at which a cost fits that is larger than the limit.
const never = math.MaxInt64

// counter is one algorithm. Implementations hold no data of their own: all of it is in
// the term and the state. A state given to them is not idle at now; the zero state is that
// of a key without one.
type counter interface {
	// floor sets in s the units that a limit withholds at its start.
	floor(t *sluice.Term, s *State, now, start int64)
	// instant returns the instant of a windowed state: earlier decisions are made as of
	// that instant. It is 0 for a bucket.
	instant(t *sluice.Term, s *State) int64
	// arrive drops the rest of a cancelled reservation from s, once its instant has come.
	arrive(t *sluice.Term, s *State)
	// stepped reports whether s lies further ahead of now than its limit allows: then
	// the clock has stepped back since. clamp turns such a state into one from now on in
	// which all units are spent, without debt.
	stepped(t *sluice.Term, s *State, now int64) bool
	clamp(t *sluice.Term, s *State, now int64)
	// meet records in s the data that t needs for later decisions over a state of
	// another limit. It reports whether it changed s.
	meet(t *sluice.Term, s *State, now int64) bool
	// pending reports whether t must wait for another limit's reservation, or
	// for the end of a block.
	pending(t *sluice.Term, s *State, now int64) bool
	// counted returns the units that count against the limit at now. The largest cost
	// that fits is full minus counted.
	counted(t *sluice.Term, s *State, now int64) int64
	// earliest returns the first instant from now on at which cost fits if no other
	// request comes. Cost is at most the units of an idle key, without those that the limit
	// lends.
	earliest(t *sluice.Term, s *State, now, cost int64) int64
	// spend counts cost, which is positive, at instant at ≥ now.
	spend(t *sluice.Term, s *State, now, at, cost int64)
	// insert counts cost at an instant before that of s.
	insert(t *sluice.Term, s *State, at, cost int64)
	// deny counts a denied cost, which is positive, at now, until the limit is full.
	// It reports whether it changed s.
	deny(t *sluice.Term, s *State, now, cost int64) bool
	// refund gives units back, as far as they still count, and returns their number,
	// rounded up.
	refund(t *sluice.Term, s *State, now int64, g grant) int64
	// give gives units back without a receipt, as far as they count, the newest
	// first. A bucket gives the rest as credit. It returns the number of units given.
	give(t *sluice.Term, s *State, now, units int64) int64
	// resetAfter returns the time until s is idle.
	resetAfter(t *sluice.Term, s *State, now int64) int64
	// horizon returns the furthest that a state's Idle may be ahead of now.
	horizon(t *sluice.Term) int64
}

// grant is the receipt of a refund.
type grant struct {
	at  int64 // when the units were counted
	due int64 // when a queue let them pass; elsewhere at
	// units are given back of the held units of the receipt.
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

// full returns the number of units of an idle key. Units spent beyond them are debt.
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

// clamp returns now within the instants at which decisions are made.
func clamp(now int64) int64 { return min(max(now, 0), latest) }

// maxRefill is [bounds.MaxRefill] in µs.
const maxRefill = int64(bounds.MaxRefill / 1000)

// prepare readies the item for a decision at now. It forgets idle states. A state too far
// ahead is from before the clock stepped back: it starts over with all units spent. A form in
// which the key has no state starts with the units that the other forms know of.
func (it *Item) prepare(now int64) {
	it.Written, it.met, it.on, it.spent = false, false, nil, 0
	changed := !it.State.Zero() && settle(counterOf(it.Term), it.Term, &it.State, now)
	idle := it.State.Zero()
	if s := &it.State; s.Zero() && s.Since-now > maxWait {
		s.Since = now // the clock stepped back: nothing is reserved for so long
	} else if s.Zero() && it.Term.Credit > 0 {
		s.Since = now // receipts of lapsed credit do not belong to this balance
	}
	if len(it.Others) > 0 {
		it.prepareOthers(now)
	}
	// An idle state need not be forgotten at once beside live states of other forms. It
	// must not be: the units that see takes over from them would be kept although nothing
	// is spent.
	it.Written = changed && !(idle && len(it.Others) > 0)
}

// settle brings s to now. t or another limit of its form has written s. It reports whether
// the change must be kept.
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

// see turns the item's state into the one that the limit decides over. A form in which the
// key has no state starts with the units that other forms know of, a limit may meet a
// balance of another limit, and no key has more units than the rule has given out since its
// start. After a denial only the record of meet is kept.
func (it *Item) see(now int64) {
	c := counterOf(it.Term) // prepare may have replaced Term for want of room
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

// clear makes s a new state. It does not touch the memory of the ring, which belongs to the
// store: the store keeps the old state if the new one is not written.
func (s *State) clear() { *s = State{} }

// rest makes s a state that owes nothing. Since stays, so that older receipts do not count.
func (s *State) rest() { *s = State{Since: s.Since} }

// remaining returns how many units a take at now may spend.
func (it *Item) remaining(c counter, now int64) int64 {
	if it.State.Reserved || c.pending(it.Term, &it.State, now) {
		return 0 // no take overtakes a reservation
	}
	left := full(it.Term) - c.counted(it.Term, &it.State, now)
	if left < 0 {
		return 0
	}
	return left + it.Term.Lent
}

// resetAfter returns the time until the key is fully refilled, in µs.
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
	// With NextWaits, a take needs room only for its cost above Debt. So nothing is owed
	// above Burst before the take, and at most Debt after it.
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

// sign makes the limit whose state the item counts in the writer of that state.
func (it *Item) sign() {
	if it.on != nil && it.on.Kind == compiled.SlidingCounter {
		slidingCounter{}.sign(it.Term, &it.State, it.on)
	} else if it.on != nil {
		it.State.By = it.on
	}
}

// windows holds the methods that the windowed algorithms share.
type windows struct{}

func (windows) floor(*sluice.Term, *State, int64, int64)             {}
func (windows) meet(*sluice.Term, *State, int64) bool                { return false }
func (windows) pending(*sluice.Term, *State, int64) bool             { return false }
func (windows) resetAfter(_ *sluice.Term, s *State, now int64) int64 { return max(s.Idle-now, 0) }

// tooFar reports whether the instant at of a windowed state is too far ahead of now: by more
// than a window, plus the longest wait if it is reserved. A state with units left may be
// ahead by up to a window, so that these units can be taken at once.
func tooFar(s *State, at, now, window int64) bool {
	if s.Reserved {
		window += maxWait
	}
	return at-now > window
}

// stuck reports whether such a state, which is ahead of now, has no unit until more than a
// window from now.
func stuck(s *State, free, now, window int64) bool {
	return !s.Reserved && free-now > window
}

// clampWindow makes s, a state from before the clock stepped back, count as of now all units
// of t or of its writer, whichever has more, without debt.
func clampWindow(c counter, t *sluice.Term, s *State, now int64) {
	units := max(full(t), full(writer(t, s)))
	*s = State{By: s.By}
	c.spend(t, s, now, now, units)
}

// Ahead reports whether a state of the item lies further ahead of now than its limit
// allows. [Decide] takes that for a clock that stepped back. A store whose clock never steps
// back reads its clock again: another caller may have read it later and decided first.
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
