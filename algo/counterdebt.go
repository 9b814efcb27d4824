// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"slices"

	"github.com/sluicegate/sluice"
)

// What a charge has counted in a sliding counter above its Quota is owed, up to its Debt.
// The newest sub-window holds it, and passes it on to the next ones as they begin.

// run returns how many sub-windows in a row hold no more than Quota once all are over:
// those that count whole.
func run(t *sluice.Term) int64 {
	if t.Conservative || t.Whole {
		return int64(t.Behind) + 1
	}
	return int64(t.Behind)
}

// owed returns how many units of the newest sub-window the limit that wrote s has counted
// above its Quota, together with those before it.
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

// owes returns how long it takes from the newest sub-window until all that is owed is in
// its place: the units leave it in the turn of those in sight.
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

// pay moves what is owed on as sub-windows pass: each keeps what brings those in a row to
// Quota, and what is above counts in the next. So Quota leaves in every such row, which
// is the rate of the limit. It leaves the ring as it is, in case s is not kept.
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
		// After two rows they repeat.
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

// sign makes by the writer of s, nil for t, by whose numbers its Idle is then read.
func (c slidingCounter) sign(t *sluice.Term, s *State, by *sluice.Term) {
	start := c.start(t, s)
	s.By = by
	c.setStart(t, s, start)
}
