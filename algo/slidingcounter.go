// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// slidingCounter counts units per sub-window of Sub µs, aligned to the clock. SubWindows of
// them make a Window. The oldest sub-window lies only partly in the window (in sight): it is
// weighed by that part (an estimate that assumes its units were spread evenly), or counted
// whole if Conservative. The weighed units are rounded down or, if Strict, up. If Whole,
// the oldest sub-window is not counted: SubWindows in a row count, of which the running
// one is the last.
//
// So the newest sub-window and Behind earlier ones count, the oldest of them by these
// rules. A Whole counter of N sub-windows is a Conservative one with a window of N-1.
//
// With a Debt, units counted above Quota are paid at the rate of the limit: see pay.
//
// State: Idle is the instant at which the newest sub-window that has units leaves the
// sight, or the sub-window that takes the last of the owed units. With one Behind, A is the
// count of the newest sub-window and B that of the one before. With more, Ring holds the
// counts of Behind+1, the newest at Head, and A their sum.
type slidingCounter struct{ windows }

// sight returns how long the units of a sub-window count from its start on.
func sight(t *sluice.Term) int64 { return int64(t.Behind+1) * t.Sub }

// start returns the start of the newest sub-window.
func (c slidingCounter) start(t *sluice.Term, s *State) int64 {
	return s.Idle - sight(t) - c.owes(t, s)
}

func (c slidingCounter) setStart(t *sluice.Term, s *State, start int64) {
	s.Idle = start + sight(t) + c.owes(t, s)
}

// count returns the units of the k-th newest sub-window, 0 for k beyond Behind.
func (slidingCounter) count(t *sluice.Term, s *State, k int) int64 {
	switch {
	case k < 0 || k > t.Behind:
		return 0
	case t.Behind > 1:
		return int64(s.Ring[(s.Head+k)%(t.Behind+1)])
	case k == 0:
		return s.A
	default:
		return s.B
	}
}

// put adds units, which may be negative, to the k-th newest sub-window.
func (c slidingCounter) put(t *sluice.Term, s *State, k int, units int64) {
	start := c.start(t, s)
	c.add(t, s, k, units)
	c.setStart(t, s, start)
}

// add is put for a caller that sets the start.
func (slidingCounter) add(t *sluice.Term, s *State, k int, units int64) {
	if t.Behind > 1 {
		s.Ring[(s.Head+k)%(t.Behind+1)] += uint64(units)
	}
	if t.Behind > 1 || k == 0 {
		s.A += units
	} else {
		s.B += units
	}
}

// sum returns the units of all sub-windows.
func (slidingCounter) sum(t *sluice.Term, s *State) int64 {
	if t.Behind > 1 {
		return s.A
	}
	return s.A + s.B
}

// view is a state as seen from an instant: the units of the sub-windows that
// are whole in sight, and those of the oldest, which is partly in sight.
type view struct {
	whole, oldest int64
	shift         int   // sub-windows between the state's newest and the instant's
	start         int64 // start of the instant's sub-window
}

// at returns the view from an instant in the state's newest sub-window or later.
func (c slidingCounter) at(t *sluice.Term, s *State, now int64) view {
	v := view{whole: c.sum(t, s), start: c.start(t, s)}
	if s.fill != 0 {
		v.whole = 0
		for k := range t.Behind + 1 {
			v.whole += c.seen(t, s, k)
		}
	}
	if now >= v.start+t.Sub {
		steps := (now - v.start) / t.Sub
		v.start += steps * t.Sub
		v.shift = int(min(steps, int64(t.Behind)+1))
	}
	for k := t.Behind; k >= 0 && k > t.Behind-v.shift; k-- {
		v.whole -= c.seen(t, s, k) // out of sight
	}
	v.oldest = c.seen(t, s, t.Behind-v.shift)
	v.whole -= v.oldest
	return v
}

// next moves the view to the start of the next sub-window.
func (c slidingCounter) next(t *sluice.Term, s *State, v *view) {
	v.shift++
	v.start += t.Sub
	v.oldest = c.seen(t, s, t.Behind-v.shift)
	v.whole -= v.oldest
}

// fits returns the first instant in the view's sub-window at which cost fits.
//
// The rule is oldest·(Sub−e) < (Quota−whole−cost+1)·Sub, where e is the time since
// the sub-window began: the estimate before the last unit is below the quota.
// If Strict, it is oldest·(Sub−e) ≤ (Quota−whole−cost)·Sub: the estimate after the last
// unit is at most the quota. Neither rounds.
func (v *view) fits(t *sluice.Term, cost int64) (at int64, ok bool) {
	room := t.Quota - v.whole - cost
	switch {
	case room < 0:
		return 0, false
	case v.oldest <= room:
		return v.start, true
	case t.Conservative, t.Whole:
		return 0, false
	}
	below := int64(1)
	if t.Strict {
		below = 0
	}
	// inSight is the largest number of µs for which the rule holds.
	inSight, rem := span.MulDiv(room+below, t.Sub, v.oldest)
	if rem == 0 {
		inSight -= below
	}
	return v.start + t.Sub - inSight, inSight > 0
}

// floor makes s the state as seen by a pre-filled limit: the window before the
// rule's start is full while any of it is in sight.
func (c slidingCounter) floor(t *sluice.Term, s *State, now, start int64) {
	start -= start % t.Sub
	if !t.PreFilled || now >= start+sight(t)-t.Sub {
		return
	}
	if s.Zero() {
		if t.Behind > 1 {
			c.makeRing(t, s)
		}
		c.setStart(t, s, start-t.Sub)
	}
	s.fill = start
}

// seen returns the units of the k-th newest sub-window as the limit sees them: the
// pre-filled ones sum up to Quota.
func (c slidingCounter) seen(t *sluice.Term, s *State, k int) int64 {
	n := c.count(t, s, k)
	if s.fill == 0 || k < 0 || k > t.Behind {
		return n
	}
	parts := int64(t.Behind)
	if before := (s.fill-c.start(t, s))/t.Sub + int64(k); before >= 1 && before <= parts {
		n += (t.Quota + parts - before) / parts
	}
	return n
}

func (c slidingCounter) arrive(t *sluice.Term, s *State) { c.trim(t, s) }

func (c slidingCounter) stepped(t *sluice.Term, s *State, now int64) bool {
	at, window := c.start(t, s), int64(t.Behind)*t.Sub
	return at > now && (tooFar(s, at, now, window) || stuck(s, c.earliest(t, s, now, 1), now, window))
}

// clamp counts all units in the sub-window before that of now: in a later one they would
// count for longer than a window. The units that are out of sight there count in the running
// one. The limit with the larger Quota becomes the writer: to the other one the units would
// be a debt.
func (c slidingCounter) clamp(t *sluice.Term, s *State, now int64) {
	units, by := writer(t, s).Quota, s.By
	if units <= t.Quota {
		units, by = t.Quota, nil
	}
	if *s = (State{By: by}); t.Behind > 1 {
		c.makeRing(t, s)
	}
	c.setStart(t, s, now-now%t.Sub-t.Sub)
	c.put(t, s, 0, units)
	if unseen := units - c.counted(t, s, now); unseen > 0 {
		c.turn(t, s, now)
		c.put(t, s, 0, unseen)
	}
}

// known returns the units with the starts of their sub-windows: they came no earlier.
func (c slidingCounter) known(t *sluice.Term, s *State) []known {
	var list []known
	for k := t.Behind; k >= 0; k-- {
		if n := c.count(t, s, k); n > 0 {
			list = append(list, known{max(c.start(t, s)-int64(k)*t.Sub, 0), n})
		}
	}
	return list
}

func (slidingCounter) makeRing(t *sluice.Term, s *State) {
	n := t.Behind + 1
	if len(s.Ring) < n {
		s.Ring = make([]uint64, n)
	}
	clear(s.Ring)
	s.Head, s.Len = 0, n
}

// instant returns the start of the newest sub-window.
func (c slidingCounter) instant(t *sluice.Term, s *State) int64 { return c.start(t, s) }

func (c slidingCounter) counted(t *sluice.Term, s *State, now int64) int64 {
	if s.Zero() {
		return 0
	}
	now = max(now, c.start(t, s))
	v := c.at(t, s, now)
	return v.whole + v.weighed(t, now)
}

func (c slidingCounter) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	first := max(now, c.start(t, s))
	from, v, reserved := first, c.at(t, s, first), s.Reserved
	if c.owed(t, s) > 0 {
		paid := *s
		paid.Ring = slices.Clone(s.Ring)
		s = &paid
	}
	for {
		if at, ok := v.fits(t, cost); ok {
			if at = max(at, from); at == first && !reserved {
				return now // if the clock stepped back, the state's own instant counts as now
			}
			return at
		}
		if c.owed(t, s) == 0 {
			c.next(t, s, &v) // after Behind+1 steps nothing is in sight
			continue
		}
		// Units above Quota in the newest sub-window are paid first.
		w := writer(t, s)
		runs := max(min(c.count(t, s, 0)+cost-t.Quota, c.owed(t, s))/w.Quota-2, 0)
		from = c.start(t, s) + (runs*run(w)+1)*t.Sub
		c.payInPlace(t, s, from)
		v = c.at(t, s, from)
	}
}

func (c slidingCounter) spend(t *sluice.Term, s *State, now, at, cost int64) {
	if s.Zero() {
		if t.Behind > 1 {
			c.makeRing(t, s)
		}
		c.setStart(t, s, at-at%t.Sub)
	}
	c.pay(t, s, at)
	c.turn(t, s, at)
	c.sign(t, s, nil)
	c.put(t, s, 0, cost)
	s.Reserved = s.Reserved || at > now && c.start(t, s) > now
}

func (c slidingCounter) insert(t *sluice.Term, s *State, at, cost int64) {
	k := int(min(ceilDiv(c.start(t, s)-at, t.Sub), int64(t.Behind)+1))
	if k <= t.Behind { // otherwise it is out of the window of all later decisions
		c.put(t, s, k, cost)
	}
}

// deny counts cost in the newest sub-window, up to the quota, or up to one unit more if
// parts of a unit may pass. A limit counts nothing in a state that owes more than its own
// Debt, which would be forgotten.
func (c slidingCounter) deny(t *sluice.Term, s *State, now, cost int64) bool {
	room := t.Quota
	if !t.Conservative && !t.Whole && !t.Strict {
		room++
	}
	if !s.Zero() && now < c.start(t, s)+t.Sub {
		room -= c.count(t, s, 0)
	}
	if cost = min(cost, room); s.Reserved || cost <= 0 || c.owed(t, s) > t.Debt {
		return false
	}
	c.spend(t, s, now, now, cost)
	return true
}

// turn makes the sub-window of at the newest, unless it is the newest or an older one.
func (c slidingCounter) turn(t *sluice.Term, s *State, at int64) {
	start := c.start(t, s)
	if at < start+t.Sub {
		return
	}
	steps := (at - start) / t.Sub
	c.shift(t, s, steps)
	c.setStart(t, s, start+steps*t.Sub)
}

// shift makes room for newer sub-windows, without setting their start.
func (slidingCounter) shift(t *sluice.Term, s *State, steps int64) {
	if t.Behind == 1 {
		if s.B = s.A; steps > 1 {
			s.B = 0
		}
		s.A = 0
		return
	}
	n := t.Behind + 1
	for range min(steps, int64(n)) {
		s.Head = (s.Head + n - 1) % n
		s.A -= int64(s.Ring[s.Head])
		s.Ring[s.Head] = 0
	}
}

func (c slidingCounter) refund(t *sluice.Term, s *State, now int64, g grant) int64 {
	if s.Zero() {
		return 0
	}
	at, start := g.at, c.start(t, s)
	k := int(min(ceilDiv(start-at, t.Sub), int64(t.Behind)+1)) // at's sub-window
	shift := max((now-start)/t.Sub, 0)
	if at >= start+t.Sub || k < 0 || int64(k)+shift > int64(t.Behind) {
		return 0
	}
	back := min(g.units, c.count(t, s, k))
	c.put(t, s, k, -back)
	c.trim(t, s)
	return back
}

func (c slidingCounter) give(t *sluice.Term, s *State, now, units int64) int64 {
	if s.Zero() {
		return 0
	}
	start, left := c.start(t, s), units
	shift := max((now-start)/t.Sub, 0)
	for k := range t.Behind + 1 {
		if int64(k)+shift > int64(t.Behind) {
			break // out of sight
		}
		if s.Reserved && start-int64(k)*t.Sub > now {
			continue
		}
		back := min(left, c.count(t, s, k))
		c.put(t, s, k, -back)
		left -= back
	}
	c.trim(t, s)
	return units - left
}

// trim makes the newest sub-window that has units the state's newest, so that
// equal histories have equal states.
func (c slidingCounter) trim(t *sluice.Term, s *State) {
	if s.Reserved {
		return
	}
	if c.sum(t, s) == 0 {
		s.clear()
		return
	}
	start := c.start(t, s)
	for c.count(t, s, 0) == 0 {
		start -= t.Sub
		if t.Behind == 1 {
			s.A, s.B = s.B, 0
		} else {
			s.Head = (s.Head + 1) % (t.Behind + 1)
		}
	}
	c.setStart(t, s, start)
}

func (slidingCounter) horizon(t *sluice.Term) int64 {
	return sight(t) + maxWait + ceilDiv(t.Debt, t.Quota)*run(t)*t.Sub
}
