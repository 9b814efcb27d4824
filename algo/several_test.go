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
					if !l.CountDenied && l.InitialDeficit == 0 && !l.PreFilled && !sameIfAlive(before[i], both.states()[i], now) {
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

func TestInvariant16SeveralKeysAllOrNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawLimits(t), drawLimits(t)
		a, b := compile(t, first...), compile(t, second...)
		items := make([]algo.Item, a.Len()+b.Len())
		now := origin
		books := make([]admissions, len(items))
		for range 40 {
			now += drawGap(t, first[0])
			req := sluice.Request{
				Op:     rapid.SampledFrom([]sluice.Op{sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve, sluice.OpPeek}).Draw(t, "op"),
				Charge: sluice.Charge{Plan: a, Key: "a", Cost: rapid.Int64Range(0, 4).Draw(t, "cost")},
				More:   []sluice.Charge{{Plan: b, Key: "b", Cost: rapid.Int64Range(0, 4).Draw(t, "more")}},
			}
			if req.Op == sluice.OpReserve {
				req.MaxWait = dur(rapid.Int64Range(0, 2*s).Draw(t, "wait"))
			}
			out := make(sluice.Outcomes, len(items))
			req.Outcomes = &out
			before := make([]algo.State, len(items))
			for i := range items {
				items[i].Term, items[i].Cost = a.Term(min(i, a.Len()-1)), req.Cost
				if i >= a.Len() {
					items[i].Term, items[i].Cost = b.Term(i-a.Len()), req.More[0].Cost
				}
				before[i] = clone(items[i].State)
				items[i].State = clone(items[i].State)
			}
			d := algo.Decide(&req, items, now)
			for i := range items {
				l := items[i].Term.Limit
				cost := req.Cost
				if i >= a.Len() {
					cost = req.More[0].Cost
				}
				switch {
				case req.Op == sluice.OpPeek || !items[i].Written:
					items[i].State = before[i]
				case !d.Allowed && !l.CountDenied && l.InitialDeficit == 0 && !l.PreFilled && !sameIfAlive(before[i], items[i].State, now):
					t.Fatalf("denied, but limit %d turned %+v into %+v", i, before[i], items[i].State)
				}
				if d.Allowed && req.Op != sluice.OpPeek && cost > 0 {
					if req.Op == sluice.OpTakeUpTo {
						if req.Cost > 0 && d.Spent != min(d.Spent, req.Cost) || req.Cost > 0 && d.Spent == 0 {
							t.Fatalf("as many as fit of %d: %+v", req.Cost, d)
						}
						cost = items[i].Cost
					}
					books[i].add(int64(d.At), cost)
				}
			}
			if !d.Allowed && d.RetryAfter <= 0 {
				t.Fatalf("%v of %d and %d: denied, but %+v", req.Op, req.Cost, req.More[0].Cost, d)
			}
		}
		for i, it := range items {
			checkBounds(t, it.Term.Limit, books[i])
		}
	})
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

func TestInvariant24ChangeOfLimit(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		next := l
		next.Quota = rapid.Int64Range(1, 3*l.Quota).Draw(t, "quota")
		if l.Burst > 0 {
			next.Burst = rapid.Int64Range(1, 3*l.Burst).Draw(t, "burst")
			next.InitialDeficit = min(next.InitialDeficit, next.Burst)
			next.DelayAfter = min(next.DelayAfter, next.Burst)
		}
		if next.Validate() != nil {
			next = l
		}
		p := play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 25) {
			now += e.Gap
			p.step(now, e)
		}
		now += drawGap(t, l)
		p.change(next)
		p.receipts = nil
		for _, e := range drawTrace(t, next, 25, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve) {
			p.step(now, e)
			now += e.Gap
		}
		checkBoundsOfChange(t, p.admissions, l, next)
	})
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

// TestChangeServes: two versions of a limit in turn starve no key. (Due: what
// the stricter of the two gives.)
func TestChangeServes(t *testing.T) {
	for _, c := range []struct {
		one, two string
		every    int64
		least    int
	}{
		{"n: 10/min", "n: 12/min", s / 2, 600},
		{"n: 60/min", "n: 120/min", 300 * ms, 3600},
		{"n: 5/min sliding-log", "n: 6/min sliding-log", s / 2, 300},
		{"n: 10/min sliding-histogram", "n: 12/min sliding-histogram", s / 2, 600},
		{"n: 10/min fixed-window", "n: 12/min fixed-window", s / 2, 600},
		{"n: 10/min burst 10 interval-refill", "n: 12/min burst 12 interval-refill", s / 2, 600},
		{"n: 1/s burst 100", "n: 100/min burst 10 leaky-bucket nodelay", s / 4, 3600},
	} {
		limits := []sluice.Limit{sluice.MustParseLimit(c.one), sluice.MustParseLimit(c.two)}
		a := open(t, limits[0])
		admitted := 0
		for i, now := 0, origin; now <= origin+h; i, now = i+1, now+c.every {
			a.change(limits[i%2])
			if a.take(now, 1).Allowed {
				admitted++
			}
		}
		if admitted < c.least {
			t.Errorf("%s and %s in turn: %d admitted in an hour, want at least %d", c.one, c.two, admitted, c.least)
		}
	}
}

// TestChangeForgetsNothing: a limit that is lowered and put back, at one instant
// or over an hour, gives nothing anew.
func TestChangeForgetsNothing(t *testing.T) {
	for _, c := range []struct {
		one, two    string
		every, most int64
	}{
		{"n: 1000/day", "n: 10/day", 0, 1000},
		{"n: 1/s burst 10", "n: 1/s burst 100000", 0, 100000},
		{"n: 1000/h interval-refill", "n: 10/h interval-refill", 0, 1000},
		{"n: 1000/day burst 1000 leaky-bucket nodelay", "n: 10/day leaky-bucket", 0, 1000},
		{"n: 1000/h fixed-window", "n: 10/min fixed-window", 121 * s, 1000 + 10*60},
		{"n: 1000/h sliding-log", "n: 10/min sliding-log", 121 * s, 1000 + 10*60},
		{"n: 1000/h sliding-log count-denied", "n: 10/h sliding-log count-denied", 0, 1000},
		{"n: 1000/h sliding-histogram", "n: 10/min sliding-histogram", 121 * s, 1000 + 10*60},
		{"n: 1000/h sliding-counter", "n: 10/min sliding-counter", 121 * s, 2000 + 10*60},
		{"n: 1000/day", "n: 10/min sliding-log", 121 * s, 1042 + 10*60},
	} {
		limits := []sluice.Limit{sluice.MustParseLimit(c.one), sluice.MustParseLimit(c.two)}
		a := open(t, limits[0])
		var admitted int64
		now := origin
		for i := range 100 {
			a.change(limits[i%2])
			admitted += a.upTo(now, 1_000_000).Spent
			if now += c.every; now >= origin+h {
				break
			}
		}
		if admitted > c.most {
			t.Errorf("%s and %s in turn: %d admitted, want at most %d", c.one, c.two, admitted, c.most)
		}
	}
}
