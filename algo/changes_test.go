// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// under decides an operation under a limit over states that limits of its name have written,
// and returns the new states.
func under(t *testing.T, text string, op sluice.Op, cost, now int64, states []algo.State) (sluice.Decision, []algo.State) {
	t.Helper()
	return decideUnder(t, text, sluice.Request{Op: op, Charge: sluice.Charge{Cost: cost}}, now, states)
}

func decideUnder(t *testing.T, text string, req sluice.Request, now int64, states []algo.State) (sluice.Decision, []algo.State) {
	t.Helper()
	l, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sluice.Compile("s", l)
	if err != nil {
		t.Fatal(err)
	}
	req.Plan = p
	items := []algo.Item{{Term: p.Term(0), Cost: req.Cost}}
	copies := slices.Clone(states)
	for i := range copies {
		copies[i].Ring = slices.Clone(copies[i].Ring)
	}
	items[0].Pick(copies)
	d := algo.Decide(&req, items, now)
	if !items[0].Written {
		return d, states
	}
	return d, items[0].Keep(nil)
}

// TestCostThatLastsForEver: many units of a fast limit are charged to the balance of a slow
// one, at whose rate they would last longer than an int64 can express.
func TestCostThatLastsForEver(t *testing.T) {
	_, states := under(t, "n: 1/366day", sluice.OpTake, 1, origin, nil)
	for _, op := range []sluice.Op{sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge} {
		d, left := under(t, "n: 9007199254740991/us", op, sluice.MaxQuota/2, origin+1, states)
		if !d.Allowed || d.Spent != sluice.MaxQuota/2 || len(left) != 1 {
			t.Errorf("%v: got %+v and %+v, want all", op, d, left)
		}
	}
}

// TestOtherFormsFromBeforeTheClockSteppedBack: states of other forms count as full from
// now on, and keep their writers.
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

// TestDenialKeepsNothingOfOtherForms: an idle state beside a state of another form, which a
// store has not dropped yet, stays idle if nothing is spent. Otherwise a second refund
// would give units back that the other form counts.
func TestDenialKeepsNothingOfOtherForms(t *testing.T) {
	const whole, parts = "n: 20/s sliding-counter", "n: 20/s sliding-counter sub-windows 5"
	refund := func(text string, cost, at, now int64, states []algo.State) (sluice.Decision, []algo.State) {
		return decideUnder(t, text, sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Cost: cost}, At: sluice.Instant(at)}, now, states)
	}
	_, states := under(t, whole, sluice.OpTake, 1, origin, nil)
	taken := origin + 1500*ms
	_, states = under(t, parts, sluice.OpTake, 10, taken, states)
	d, states := refund(whole, 10, taken, taken+100*ms, states)
	if d.Spent != -10 || len(states) != 2 {
		t.Fatalf("got %+v and %+v, want 10 given back and two forms", d, states)
	}
	late := origin + 2050*ms // only the one with more sub-windows still counts
	for _, c := range []struct {
		op      sluice.Op
		cost    int64
		allowed bool
	}{{sluice.OpTake, 20, false}, {sluice.OpReserve, 20, false}, {sluice.OpTake, 0, true}, {sluice.OpCharge, 0, true}} {
		d, left := under(t, whole, c.op, c.cost, late, states)
		if d.Allowed != c.allowed || d.Remaining != 11 { // a twentieth of the 10 has expired, which makes them 9
			t.Errorf("%v %d: got %+v, want what the other form counts", c.op, c.cost, d)
		}
		if d, _ = refund(whole, 10, taken, late+1, left); d.Spent != 0 {
			t.Errorf("behind %v %d: %d are given back once more, want 0", c.op, c.cost, -d.Spent)
		}
	}
}

// TestIdleStatesSayNothing: decisions do not depend on whether the store has dropped idle
// states, whichever limits of the name wrote them.
func TestIdleStatesSayNothing(t *testing.T) {
	texts := []string{
		"n: 20/s sliding-counter", "n: 20/s sliding-counter strict", "n: 20/s sliding-counter sub-windows 5", "n: 9/s fixed-window",
		"n: 9/3s fixed-window anchor first", "n: 12/s sliding-log", "n: 12/2s sliding-log count-denied", "n: 200/s sliding-histogram precision 3",
		"n: 10/s burst 15", "n: 10/s leaky-bucket burst 5", "n: 10/s interval-refill",
	}
	ops := []sluice.Op{
		sluice.OpTake, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpReserve, sluice.OpPeek, sluice.OpRefund, sluice.OpRefund,
	}
	gaps := []int64{0, µs, ms, 50 * ms, 200 * ms, 450 * ms, s}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		limits := []string{texts[rnd.IntN(len(texts))], texts[rnd.IntN(len(texts))], texts[rnd.IntN(len(texts))]}
		var all, live []algo.State
		receipts := []sluice.Request{{At: 1}}
		now := origin
		for range 500 {
			now += gaps[rnd.IntN(len(gaps))]
			text := limits[rnd.IntN(len(limits))]
			req := sluice.Request{Op: ops[rnd.IntN(len(ops))], Charge: sluice.Charge{Cost: rnd.Int64N(15)}}
			switch req.Op {
			case sluice.OpReserve:
				req.MaxWait = time.Second
			case sluice.OpRefund:
				req = receipts[max(len(receipts)-1-rnd.IntN(5), 0)]
				req.Op = sluice.OpRefund
			}
			var got, want sluice.Decision
			got, all = decideUnder(t, text, req, now, all)
			live = slices.DeleteFunc(live, func(s algo.State) bool { return s.Idle <= now })
			want, live = decideUnder(t, text, req, now, live)
			if got != want {
				t.Fatalf("seed %d: %v %d at %d under %s of %q: with idle states %+v, without %+v", seed, req.Op, req.Cost, now, text, limits, got, want)
			}
			if want.Spent > 0 {
				receipts = append(receipts, sluice.Request{Charge: sluice.Charge{Cost: want.Spent}, At: want.At, Due: want.Due})
			}
		}
	}
}
