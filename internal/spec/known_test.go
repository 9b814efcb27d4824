// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/spec"
)

const (
	s      = 1_000_000
	minute = 60 * s
	h      = 60 * minute
	day    = 24 * h
)

func world(limits ...string) *spec.World {
	w := &spec.World{Name: "given"}
	for _, l := range limits {
		w.Plans = append(w.Plans, spec.Plan{Scope: "s", Limits: []string{l}})
	}
	return w
}

// upTo, reserve, charge, take and give are steps of the first key; give refunds the units of
// the first step.
func upTo(advance int64, plan int, n int64) spec.Step {
	return spec.Step{Advance: advance, Op: sluice.OpTakeUpTo, Plan: plan, Cost: n}
}

func take(advance int64, plan int, n int64) spec.Step {
	return spec.Step{Advance: advance, Plan: plan, Cost: n}
}

func charge(advance, n int64) spec.Step {
	return spec.Step{Advance: advance, Op: sluice.OpCharge, Cost: n}
}

func reserve(n int64) spec.Step {
	return spec.Step{Op: sluice.OpReserve, Cost: n, Wait: h}
}

func give(advance int64, plan int) spec.Step {
	return spec.Step{Advance: advance, Op: sluice.OpRefund, Plan: plan, Of: 1}
}

// inTurn takes under all plans of a world in turn.
func inTurn(plans, n int, every, cost int64) (steps []spec.Step) {
	for i := range n {
		steps = append(steps, spec.Step{Advance: every, Op: sluice.OpTakeUpTo, Plan: i % plans, Cost: cost})
	}
	return steps
}

// play runs steps on every store.
func play(t *testing.T, w *spec.World, steps []spec.Step) {
	t.Helper()
	for _, open := range []spec.Open{open, openBatched, openRestored} {
		spec.Play(t, open, w, steps)
	}
}

func served(t *testing.T, w *spec.World, every int64, takes int) {
	t.Helper()
	for _, open := range []spec.Open{open, openBatched} {
		spec.Served(t, open, w, every, takes)
	}
}

func TestChangedVersionsServe(t *testing.T) {
	for _, c := range []struct {
		limits []string
		every  int64
	}{
		{[]string{"a: 10/min", "a: 12/min"}, s / 2},
		{[]string{"a: 60/min", "a: 120/min"}, 300_000},
		{[]string{"a: 10/s burst 1", "a: 1/s burst 10"}, 50_000},
		{[]string{"a: 1/day burst 3", "a: 2/day burst 4", "a: 3/day burst 5"}, h},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			served(t, world(c.limits...), c.every, 5000)
		})
	}
	for _, limits := range [][]string{
		{"a: 5/min sliding-log", "a: 6/min sliding-log"},
		{"a: 10/min sliding-histogram", "a: 12/min sliding-histogram"},
		{"a: 10/min fixed-window", "a: 12/min fixed-window"},
		{"a: 10/min sliding-counter conservative", "a: 12/min sliding-counter conservative"},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			play(t, world(limits...), inTurn(2, 600, s, 1))
		})
	}
}

func TestChangedVersionsAdmitNoMore(t *testing.T) {
	for _, c := range []struct {
		limits []string
		every  int64
	}{
		{[]string{"a: 10/day", "a: 1000/day"}, 0},
		{[]string{"a: 1/s burst 10", "a: 1/s burst 100000"}, 0},
		{[]string{"a: 10/h interval-refill", "a: 1000/h interval-refill"}, 0},
		{[]string{"a: 1000/h fixed-window", "a: 10/min fixed-window"}, 121 * s},
		{[]string{"a: 1000/h sliding-log", "a: 10/min sliding-log"}, 121 * s},
		{[]string{"a: 1000/h sliding-counter", "a: 10/min sliding-counter"}, 121 * s},
		{[]string{"a: 1000/h sliding-histogram", "a: 10/min sliding-histogram"}, 121 * s},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			play(t, world(c.limits...), inTurn(2, 100, c.every, 1_000_000))
		})
	}
}

func TestRefundBesideReservation(t *testing.T) {
	t.Run("debt", func(t *testing.T) {
		play(t, world("a: 100/min burst 100 debt 100"), []spec.Step{
			take(0, 0, 100), reserve(100), give(0, 0), upTo(minute, 0, 1000),
		})
	})
	t.Run("another limit", func(t *testing.T) {
		w := &spec.World{Plans: []spec.Plan{
			{Scope: "s", Limits: []string{"a: 100/min burst 100", "b: 60/20s fixed-window"}},
			{Scope: "s", Limits: []string{"a: 100/min burst 100"}},
		}}
		play(t, w, []spec.Step{take(10*s, 0, 50), reserve(20), give(0, 0), upTo(10*s, 1, 1000)})
	})
	t.Run("another key", func(t *testing.T) {
		both := reserve(50)
		both.More = []spec.Part{{Plan: 0, Key: 1}}
		full := take(0, 0, 100)
		full.Key = 1
		play(t, world("a: 100/min burst 100"), []spec.Step{take(0, 0, 50), full, both, give(0, 0), upTo(30*s, 0, 1000)})
	})
}

// TestRefundBehindReservationOfAnother: units drain at the rate of their limit
// until another's reservation counts.
func TestRefundBehindReservationOfAnother(t *testing.T) {
	mine := reserve(2)
	mine.Plan = 1
	for _, limits := range [][]string{{"a: 3/s burst 7", "a: 2/s burst 2"}, {"a: 7/s interval-refill", "a: 2/s interval-refill"}} {
		play(t, world(limits...), []spec.Step{take(0, 0, 2), mine, give(0, 1), upTo(596_000, 1, 9), upTo(404_000, 1, 9)})
	}
}

// TestReservationInBalanceOfAnother: until a reservation counts, units that another limit has
// admitted drain at that limit's rate.
func TestReservationInBalanceOfAnother(t *testing.T) {
	first, mine, back := reserve(1), reserve(1), give(0, 0)
	first.Plan, back.Of = 1, spec.Newest
	play(t, world("a: 6/128556us leaky-bucket nodelay burst 2", "a: 5/276us leaky-bucket nodelay burst 2 debt 2"), []spec.Step{
		take(0, 0, 1), first, mine, back, take(0, 0, 1), charge(0, 2), upTo(60, 1, 9),
	})
}

// TestRefundInAQueue: a unit that is due at half a µs has drained at the next whole one, from
// which a reservation counts.
func TestRefundInAQueue(t *testing.T) {
	second := give(0, 0)
	second.Of = 2
	play(t, world("a: 4/1us leaky-bucket burst 4"), []spec.Step{
		take(0, 0, 2), take(0, 0, 1), reserve(2), second, upTo(1, 0, 9),
	})
}

// TestRefundAfterMonths: while a balance lives, the store knows that no other limit has used
// it, even if it knows another limit of the name.
func TestRefundAfterMonths(t *testing.T) {
	old := give(0, 0)
	old.Of = 3
	play(t, world("a: 3/8758974862476us burst 4", "a: 4/8758974862476us burst 4"), []spec.Step{
		take(0, 0, 4), take(0, 1, 1), take(58162436*s, 0, 4), take(8758974*s, 0, 2), old,
	})
}

// TestBalanceInTurnBesideAWindow: every change of its writer may round a balance up, also
// beside other forms.
func TestBalanceInTurnBesideAWindow(t *testing.T) {
	fast := charge(1, 1)
	fast.Plan = 2
	play(t, world("a: 1/5871313116us sliding-counter sub-windows 4 debt 1", "a: 6/31622400000000us leaky-bucket burst 3", "a: 51/9us burst 51 debt 5"),
		[]spec.Step{take(0, 0, 1), take(98351908*s, 1, 1), fast, take(0, 1, 1), take(0, 1, 1)})
}

// TestRefundOfUnevenCharge: a key that had no room for a charge gets nothing back from its
// refund.
func TestRefundOfUnevenCharge(t *testing.T) {
	for _, limit := range []string{"a: 4/day sliding-counter conservative", "a: 4/day sliding-log", "a: 4/day"} {
		full, both := take(0, 0, 4), charge(0, 1)
		full.Key = 1
		both.More = []spec.Part{{Plan: 0, Key: 1}}
		again := upTo(0, 0, 9)
		again.Key = 1
		back := give(0, 0)
		back.Of = spec.Newest
		w := world(limit)
		t.Run(limit, func(t *testing.T) { play(t, w, []spec.Step{full, both, back, again}) })
	}
}

func TestRefundAcrossChange(t *testing.T) {
	play(t, world("a: 100/min", "a: 1/min burst 100"), []spec.Step{
		take(0, 0, 100), take(minute, 1, 100), give(0, 1), upTo(0, 1, 1000),
	})
}

func TestManyVersions(t *testing.T) {
	var limits []string
	var steps []spec.Step
	for i := range 40 {
		limits = append(limits, fmt.Sprintf("a: %d/h sliding-log", 100+i))
	}
	steps = append(steps, upTo(0, 0, 1000))
	for i := range limits {
		other := upTo(0, i, 1)
		other.Key = 1 + i
		steps = append(steps, other)
	}
	play(t, world(limits...), append(steps, upTo(0, 39, 1000)))
}

func TestSeldomClient(t *testing.T) {
	for _, c := range []struct {
		limit string
		every int64
	}{
		{"a: 100/min initial 0", 3 * minute},
		{"a: 5/s initial 0", 10 * s},
		{"a: 5/min sliding-counter pre-filled", 3 * minute},
	} {
		t.Run(c.limit, func(t *testing.T) {
			var steps []spec.Step
			for range 20 {
				steps = append(steps, take(c.every, 0, 1))
			}
			play(t, world(c.limit), steps)
		})
	}
}

func TestCounterRule(t *testing.T) {
	// 5 + 9·0.5 = 9.5 of 10 passes, 11.75 does not: platforms.md.
	steps := []spec.Step{upTo(0, 0, 9), upTo(minute+minute/2, 0, 6), take(0, 0, 1)}
	for _, rule := range []string{"", " strict", " conservative", " sub-windows 4", " strict sub-windows 4"} {
		t.Run("rule"+rule, func(t *testing.T) { play(t, world("a: 10/min sliding-counter"+rule), steps) })
	}
}

func TestRefundAtDebtCap(t *testing.T) {
	play(t, world("a: 100/min burst 100 debt 100"), []spec.Step{charge(0, 200), charge(minute, 100), give(0, 0)})
}

func TestSettleExactly(t *testing.T) {
	// 100 at 1/s settled to 50: rules.md 3.
	for _, after := range []int64{10, 50, 60, 90, 100} {
		half := give(after*s, 0)
		half.Give = spec.Half
		play(t, world("a: 1/s burst 100"), []spec.Step{take(0, 0, 100), half, give(s, 0), upTo(0, 0, 1000)})
	}
}

func TestBoundsOfADay(t *testing.T) {
	play(t, world("a: 1000/day", "a: 10/day"), []spec.Step{upTo(0, 0, 1000), take(0, 1, 1), upTo(0, 0, 1000), take(day/2, 1, 1), upTo(0, 0, 1000)})
}

// TestDenialsOfAFullBucket: any number of denials of a full bucket write nothing, so that a
// faster limit of the name finds the same balance as before.
func TestDenialsOfAFullBucket(t *testing.T) {
	first, peek := charge(0, 0), spec.Step{Op: sluice.OpPeek}
	first.Key = 1
	full := charge(0, 5)
	full.Plan = 1
	play(t, world("a: 55/1051610652us count-denied burst 55", "a: 3/1051610652us count-denied burst 3 debt 2"), []spec.Step{
		first, full, take(525*s, 1, 1), take(0, 1, 1), peek,
	})
}

// TestDenialsRaiseABalanceOfSeveral: versions share a balance that counts denials. A denial by
// any version counts if the balance is not full, and the next version finds it.
func TestDenialsRaiseABalanceOfSeveral(t *testing.T) {
	play(t, world("a: 10/min count-denied", "a: 20/min count-denied"), []spec.Step{
		take(0, 0, 10), upTo(3*s, 1, 20), take(s, 0, 9), upTo(0, 1, 20), take(s, 1, 20), upTo(0, 0, 10),
	})
}

// TestReservationBetweenRefills: another version is denied until the reservation is due.
func TestReservationBetweenRefills(t *testing.T) {
	full, both := take(0, 2, 5), reserve(1)
	full.Key, both.Plan = 1, 1
	both.More = []spec.Part{{Plan: 2, Key: 1}}
	for _, words := range []string{"interval-refill", "interval-refill count-denied"} {
		w := world("a: 1/s burst 5 "+words, "a: 3/s burst 8 "+words)
		w.Plans = append(w.Plans, spec.Plan{Scope: "u", Limits: []string{"u: 5/1500000us sliding-log"}})
		play(t, w, []spec.Step{take(0, 0, 5), full, both, upTo(1_200_000, 0, 1), take(0, 1, 1), upTo(300_000, 0, 9)})
	}
}
