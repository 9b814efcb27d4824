// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// under decides a take or another operation under a limit, over states that it
// and other limits of its name have left, and returns what they become.
func under(t *testing.T, text string, op sluice.Op, cost, now int64, states []algo.State) (sluice.Decision, []algo.State) {
	t.Helper()
	l, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sluice.Compile("s", l)
	if err != nil {
		t.Fatal(err)
	}
	items := []algo.Item{{Term: p.Term(0), Cost: cost}}
	items[0].Pick(states)
	d := algo.Decide(&sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Cost: cost}}, items, now)
	if !items[0].Written {
		return d, states
	}
	return d, items[0].Keep(nil)
}

// TestCostThatLastsForEver: units of a fast limit, many at once, in the balance of
// one under which they would last longer than there are numbers for.
func TestCostThatLastsForEver(t *testing.T) {
	_, states := under(t, "n: 1/366day", sluice.OpTake, 1, origin, nil)
	for _, op := range []sluice.Op{sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge} {
		d, left := under(t, "n: 9007199254740991/us", op, sluice.MaxQuota/2, origin+1, states)
		if !d.Allowed || d.Spent != sluice.MaxQuota/2 || len(left) != 1 {
			t.Errorf("%v: got %+v and %+v, want all", op, d, left)
		}
	}
}

// TestOtherFormsFromBeforeTheClockSteppedBack: they count as much as they may from
// now on, and are still who they were.
func TestOtherFormsFromBeforeTheClockSteppedBack(t *testing.T) {
	for _, other := range []string{"n: 10/s fixed-window", "n: 10/s sliding-counter", "n: 10/s sliding-histogram", "n: 10/s leaky-bucket burst 9"} {
		_, states := under(t, other, sluice.OpTake, 1, origin, nil)
		_, states = under(t, "n: 10/s sliding-log", sluice.OpTake, 1, origin, states)
		_, states = under(t, "n: 10/s sliding-log", sluice.OpTake, 1, origin-86400*s, states)
		for i := range states {
			if states[i].By == nil {
				t.Errorf("%s: %+v is of nobody", other, states[i])
			}
		}
		if d, _ := under(t, other, sluice.OpTake, 1, origin-86400*s, states); d.Allowed {
			t.Errorf("%s: got %+v, want denied", other, d)
		}
	}
}
