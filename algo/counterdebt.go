// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"slices"

	"github.com/sluicegate/sluice"
)

// A sliding counter owes the units that charges have counted above its Quota, up to its
// Debt. The newest sub-window holds them, and passes them on to the next ones as they begin.

// run returns the number of sub-windows in a row that count whole: together they hold at
// most Quota once all are over.
func run(t *sluice.Term) int64 {
	if t.Conservative || t.Whole {
		return int64(t.Behind) + 1
	}
	return int64(t.Behind)
}

// owed returns the units above the Quota of the limit that wrote s. They are all in the
// newest sub-window.
func (c slidingCounter) owed(t *sluice.Term, s *State) int64 {
	w := writer(t, s)
	if s.Zero() || w.Debt == 0 {
		return 0
	}
	over := c.sum(t, s) - w.Quota
	if run(w) == int64(t.Behind) {
		over -= c.count(t, s, t.Behind)
	}
	// Other limits may have counted more.
	return max(min(over, w.Debt, c.count(t, s, 0)), 0)
}

// owes returns the time from the start of the newest sub-window until all owed units have
// moved on to their sub-windows, as older units expire.
func (c slidingCounter) owes(t *sluice.Term, s *State) int64 {
	owed, w := c.owed(t, s), writer(t, s)
	if owed == 0 {
		return 0
	}
	runs, steps := (owed-1)/w.Quota, int64(1)
	left := owed - runs*w.Quota
	for k := run(w) - 1; k > 0; k, steps = k-1, steps+1 {
		if left -= c.count(t, s, int(k)); left <= 0 {
			break
		}
	}
	return (runs*run(w) + steps) * t.Sub
}

// pay moves owed units on as sub-windows pass. Each sub-window keeps as many as bring the
// run that ends with it to Quota, and passes the rest on to the next. So every run pays
// Quota, which is the rate of the limit. It does not change the ring in place, in case s is
// not kept.
func (c slidingCounter) pay(t *sluice.Term, s *State, now int64) {
	if c.owed(t, s) == 0 || now < c.start(t, s)+t.Sub {
		return
	}
	s.Ring = slices.Clone(s.Ring)
	c.payInPlace(t, s, now)
}

func (c slidingCounter) payInPlace(t *sluice.Term, s *State, now int64) {
	w, start := writer(t, s), c.start(t, s)
	for i, steps := int64(0), (now-start)/t.Sub; steps > 0; i++ {
		owed := c.owed(t, s)
		if owed == 0 {
			break
		}
		// After two runs the counts repeat.
		if runs := min(steps/run(w), owed/w.Quota); i >= 2*run(w) && runs > 0 {
			c.add(t, s, 0, -runs*w.Quota)
			start, steps = start+runs*run(w)*t.Sub, steps-runs*run(w)
			continue
		}
		c.add(t, s, 0, -owed)
		c.shift(t, s, 1)
		c.add(t, s, 0, owed)
		start, steps = start+t.Sub, steps-1
	}
	c.setStart(t, s, start)
}

// sign makes by the writer of s, nil for t, and adjusts Idle to the numbers of that writer.
func (c slidingCounter) sign(t *sluice.Term, s *State, by *sluice.Term) {
	start := c.start(t, s)
	s.By = by
	c.setStart(t, s, start)
}
