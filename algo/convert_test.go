// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

// TestAddToWindows: an add gives back the newest units that count.
func TestAddToWindows(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit        sluice.Limit
		given, later int64 // left where the first 4 units are out of sight
	}{
		{"log", log(10, m), 8, 10},
		{"histogram", histogram(10, m, 12), 8, 10},
		{"counter", counter(10, m, 6), 8, 10},
		{"fixed", fixed(10, m), 8, 10},
		{"interval", with(tokens(10, m, 10), byInterval), 8, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := open(t, c.limit)
			a.take(origin, 4)
			a.take(origin+30*s, 3)
			a.left(origin+30*s, 3)
			a.gives(origin+31*s, 5, 5)
			a.left(origin+31*s, c.given)
			a.left(origin+70*s, c.later)
			a.gives(origin+31*s, 0, 0)
			a.gives(origin+31*s, 50, 2)
			a.left(origin+31*s, 10)
		})
	}
	a := open(t, log(10, m), sluice.Limit{Algorithm: sluice.Block{For: dur(h)}, Quota: 2, Window: dur(m)})
	a.take(origin, 10)
	a.take(origin, 1)
	a.take(origin, 1)
	a.add(origin, 10)
	if d := a.take(origin, 1); d.Allowed || d.RetryAfter != dur(h) {
		t.Errorf("got %+v, want a block that goes on", d)
	}
}

// TestConvertAsBucket4j: PROPORTIONALLY, 40 of 100 left is 80 of 200.
func TestConvertAsBucket4j(t *testing.T) {
	small, large := tokens(100, m, 100).WithName("x"), tokens(200, m, 200).WithName("x")
	a := open(t, small)
	a.take(origin, 60)
	a.change(large)
	a.left(origin, 140)
	for range 2 { // the second has no effect
		a.convert(origin)
		a.left(origin, 80)
	}
	a.left(origin+30*s, 180)
	a.change(small)
	if d := a.convert(origin); d.Spent != -60 {
		t.Errorf("got %+v, want 60 less owed", d)
	}
	a.left(origin, 40)

	// Reserved units, and a debt above that of the limit, do not change.
	a = open(t, with(tokens(1, s, 10), debtOf(10)).WithName("x"))
	a.do(origin, sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Cost: 20}})
	a.change(tokens(1, s, 20).WithName("x"))
	a.convert(origin)
	a.left(origin+s, 1)
}

// TestConvertingGivesNothing: conversions to and fro, however many, give no unit away.
func TestConvertingGivesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawRate(t).WithName("x"), drawRate(t).WithName("x")
		a, now := open(t, first), origin
		a.take(now, rapid.Int64Range(0, first.Burst).Draw(t, "cost"))
		before := a.peek(now, 0).Remaining
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			a.change(second)
			if a.convert(now); own(a) != second {
				break // it cannot owe so much
			}
			a.change(first)
			a.convert(now)
			if after := a.peek(now, 0).Remaining; after > before {
				t.Fatalf("%v and %v: %d left, and after a turn %d", first, second, before, after)
			}
		}
	})
}

// own returns the limit that the account's state was written under.
func own(a *account) sluice.Limit {
	if by := a.items[0].State.By; by != nil {
		return by.Limit
	}
	return a.plan.Term(0).Limit
}
