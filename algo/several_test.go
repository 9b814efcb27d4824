// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// drawLimits draws several variants, with names of their own.
func drawLimits(t *rapid.T) []sluice.Limit {
	var limits []sluice.Limit
	for i := range rapid.IntRange(2, 4).Draw(t, "limits") {
		l := rapid.SampledFrom(variants()).Draw(t, "variant").limit
		limits = append(limits, l.WithName(string(rune('a'+i))))
	}
	return limits
}

func TestInvariant16SeveralLimitsAllOrNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		both := open(t, limits...)
		both.start = origin
		single := make([]*account, len(limits))
		for i, l := range limits {
			single[i] = open(t, l)
			single[i].start = origin
		}
		now := origin
		for range 40 {
			now += drawGap(t, limits[rapid.IntRange(0, len(limits)-1).Draw(t, "of")])
			cost := rapid.Int64Range(0, 4).Draw(t, "cost")
			allowed := true
			longest, delay := time.Duration(0), time.Duration(0)
			var wants []sluice.Decision
			for _, a := range single {
				d := a.fork().take(now, cost)
				wants = append(wants, d)
				allowed = allowed && d.Allowed
				longest, delay = max(longest, d.RetryAfter), max(delay, d.Delay)
			}
			before := both.states()
			got := both.take(now, cost)
			// A log that counts this denial may deny for longer from now on.
			counts := slices.ContainsFunc(limits, func(l sluice.Limit) bool { return l.CountDenied })
			if got.Allowed != allowed || got.RetryAfter != longest && (!counts || got.RetryAfter < longest) || allowed && (got.Delay != delay || got.Spent != cost) || !allowed && (got.Delay != 0 || got.Spent != 0) {
				t.Fatalf("got %+v, alone they say %+v", got, wants)
			}
			for i, a := range single {
				o := both.out[i]
				if allowed {
					if d := a.take(now, cost); o != (sluice.Outcome{Allowed: true, Remaining: d.Remaining, ResetAfter: d.ResetAfter, Spent: cost}) {
						t.Fatalf("outcome %d: got %+v, alone %+v", i, o, d)
					}
				} else {
					a.items[0].State = clone(both.items[i].State)
					if o.Allowed != wants[i].Allowed {
						t.Fatalf("outcome %d: got %+v, alone %+v", i, o, wants[i])
					}
					l := limits[i]
					if !l.CountDenied && testkit.Deficit(l) == 0 && !testkit.Counter(l).PreFilled && !sameIfAlive(before[i], both.states()[i], now) {
						t.Fatalf("denied, but limit %d turned %+v into %+v", i, before[i], both.states()[i])
					}
				}
				if want := a.items[0].State; !equalStates(both.items[i].State, want) {
					t.Fatalf("limit %d: state %+v, alone %+v", i, both.items[i].State, want)
				}
			}
			checkBinding(t, got, both.out, cost)
		}
	})
}

// checkBinding fails unless d describes the outcome that binds.
func checkBinding(t *rapid.T, d sluice.Decision, out []sluice.Outcome, cost int64) {
	t.Helper()
	want := 0
	for i, o := range out {
		w := out[want]
		if o.RetryAfter > w.RetryAfter || o.RetryAfter == w.RetryAfter && o.Remaining < w.Remaining {
			want = i
		}
	}
	o := out[want]
	if d.Binding != want || d.Remaining != o.Remaining || d.RetryAfter != o.RetryAfter || d.ResetAfter != o.ResetAfter {
		t.Fatalf("cost %d: got %+v of %+v, want limit %d to bind", cost, d, out, want)
	}
}

func TestBindingInRelationToCost(t *testing.T) {
	// 6 of 10 left for a cost of 2 is less than 4 of 10 for a cost of 1.
	a, b := compile(t, log(10, s)), compile(t, log(10, s).WithName("b"))
	items := []algo.Item{{Term: a.Term(0), Cost: 1}, {Term: b.Term(0), Cost: 2}}
	req := sluice.Request{
		Charge: sluice.Charge{Plan: a, Key: "k", Cost: 1}, More: []sluice.Charge{{Plan: b, Key: "l", Cost: 2}},
	}
	if d := algo.Decide(&req, items, origin); d.Binding != 1 || d.Remaining != 8 {
		t.Errorf("got %+v, want the second of 8/2 to bind before 9/1", d)
	}
	items[0].Cost, req.Cost = 6, 6
	if d := algo.Decide(&req, items, origin); d.Binding != 0 || d.Remaining != 3 {
		t.Errorf("got %+v, want the first of 3/6 to bind before 6/2", d)
	}
}

func TestTakeUpToSkipsChargesOfNothing(t *testing.T) {
	a, b := compile(t, log(10, s)), compile(t, with(log(3, s), debtOf(5)).WithName("b"))
	items := []algo.Item{{Term: a.Term(0), Cost: 7}, {Term: b.Term(0)}}
	req := sluice.Request{
		Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: a, Key: "k", Cost: 7}, More: []sluice.Charge{{Plan: b, Key: "l"}},
	}
	if d := algo.Decide(&req, items, origin); !d.Allowed || d.Spent != 7 || items[1].Written {
		t.Errorf("got %+v and %+v, want 7 spent on the first and none on the second", d, items[1])
	}
	// Not while the second key is in debt.
	debt := sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: b, Key: "l", Cost: 8}}
	owing := items[1:]
	owing[0].Cost = 8
	algo.Decide(&debt, owing, origin)
	items[0].Cost, items[1].Cost = 1, 0
	if d := algo.Decide(&req, items, origin); d.Allowed || d.RetryAfter != time.Second || d.Binding != 1 {
		t.Errorf("got %+v, want a denial for 1 s by the second", d)
	}
}

// TestInvariant24LimitsInTurn changes a limit to and fro at every step, as two
// versions of a program on one store would.
func TestInvariant24LimitsInTurn(t *testing.T) {
	for _, text := range []string{
		"n: 10/min sliding-log", "n: 10/min sliding-log count-denied", "n: 10/min sliding-histogram precision 3",
		"n: 10/min sliding-counter conservative", "n: 10/min fixed-window", "n: 10/min burst 10",
		"n: 10/min burst 5 leaky-bucket nodelay", "n: 10/min burst 20 interval-refill",
	} {
		t.Run(text, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				one := sluice.MustParseLimit(text)
				two := one
				two.Quota = rapid.Int64Range(1, 40).Draw(t, "quota")
				if rapid.Bool().Draw(t, "another window") {
					two.Window = dur(rapid.Int64Range(1, 100).Draw(t, "seconds") * s)
				}
				limits := []sluice.Limit{one, two}
				p := play(open(t, one))
				now := drawStart(t, one)
				for i := range rapid.IntRange(2, 80).Draw(t, "steps") {
					now += rapid.Int64Range(0, 20_000_000).Draw(t, "gap")
					p.change(limits[i%2])
					p.step(now, event{Op: sluice.OpTake, Cost: rapid.Int64Range(1, 4).Draw(t, "cost")})
				}
				checkBoundsOfChange(t, p.admissions, one, two)
			})
		})
	}
}
