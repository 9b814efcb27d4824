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
		limits = append(limits, l.Named(string(rune('a'+i))))
	}
	return limits
}

func TestInvariant16SeveralLimitsAllOrNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		both := open(t, limits...)
		single := make([]*account, len(limits))
		for i, l := range limits {
			single[i] = open(t, l)
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
					if d := a.take(now, cost); o != (sluice.Outcome{Allowed: true, Remaining: d.Remaining, ResetAfter: d.ResetAfter}) {
						t.Fatalf("outcome %d: got %+v, alone %+v", i, o, d)
					}
				} else {
					a.items[0].State = clone(both.items[i].State)
					if o.Allowed != wants[i].Allowed {
						t.Fatalf("outcome %d: got %+v, alone %+v", i, o, wants[i])
					}
					l := limits[i]
					if !l.CountDenied && l.Withheld == 0 && !l.PreFilled && !sameIfAlive(before[i], both.states()[i], now) {
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
		books := make([]ledger, len(items))
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
			out := make([]sluice.Outcome, len(items))
			req.Outcomes = out
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
				case !d.Allowed && !l.CountDenied && l.Withheld == 0 && !l.PreFilled && !sameIfAlive(before[i], items[i].State, now):
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
	a, b := compile(t, log(10, s)), compile(t, log(10, s).Named("b"))
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
	a, b := compile(t, log(10, s)), compile(t, with(log(3, s), debtOf(5)).Named("b"))
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
			next.Withheld = min(next.Withheld, next.Burst)
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
		p.carry(t, next, now)
		for _, e := range drawTrace(t, next, 25, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve) {
			p.step(now, e)
			now += e.Gap
		}
		larger := l
		larger.Quota, larger.Burst = max(l.Quota, next.Quota), max(l.Burst, next.Burst)
		larger.Withheld, larger.DelayAfter = 0, min(larger.DelayAfter, larger.Burst)
		if larger.Validate() == nil {
			checkBounds(t, larger, p.ledger)
		}
	})
}

// carry changes the account's limit.
func (p *player) carry(t rapid.TB, next sluice.Limit, now int64) {
	t.Helper()
	from := p.plan.Term(0)
	old := p.items[0].State
	words := slices.Clone(old.Ring)
	p.plan = compile(t, next)
	p.items[0].State = algo.Carry(from, p.plan.Term(0), &old, now)
	if !slices.Equal(words, old.Ring) {
		t.Fatalf("Carry has changed the old ring")
	}
	p.receipts = nil
}

func TestInvariant24ChangeGrantsNoMoreThanANewKeyHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(variants()).Draw(t, "from").limit
		to := rapid.SampledFrom(variants()).Draw(t, "to").limit
		p, now := somewhere(t, from)
		p.carry(t, to, now)
		fresh := open(t, to)
		n := 20
		switch {
		case to.Refill == sluice.Interval || to.Anchor == sluice.OnFirst:
			n = 1 // a new key's own first take starts the grid
		case to.Withheld > 0 || to.PreFilled:
			n = 1 // a new key is forgotten, and starts with less again, before one that had more to earn
		}
		for _, e := range drawTrace(t, to, n, sluice.OpTakeUpTo) {
			got, most := p.fork().upTo(now, sluice.MaxQuota).Spent, fresh.fork().upTo(now, sluice.MaxQuota).Spent
			if got > most {
				t.Fatalf("%v changed to %v: %d remain, to a new key %d", from, to, got, most)
			}
			cost := min(e.Cost, got)
			p.upTo(now, cost)
			fresh.upTo(now, cost)
			now += e.Gap
		}
	})
}

// TestCarryCountsAsTheOldLimit: nothing that counted is lost on the way.
func TestCarryCountsAsTheOldLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to sluice.Limit
		spent    int64
		after    int64 // µs from the take to the change
		want     int64 // remaining
	}{
		{"log to log of less", log(10, s), log(7, s), 5, 0, 2},
		{"log to log of too little", log(10, s), log(4, s), 5, 0, 0},
		{"bucket, part of a unit drained", tokens(10, s, 10), tokens(20, s, 20), 5, 50 * ms, 15},
		{"bucket, a unit drained", tokens(10, s, 10), tokens(20, s, 20), 5, 100 * ms, 16},
		{"fixed to log", fixed(10, s), log(10, s), 5, 999 * ms, 5},
		{"counter by its estimate, which rounds down", counter(10, s, 1), log(10, s), 5, 1500 * ms, 8},
		{"strict counter by its estimate", with(counter(10, s, 1), strict), log(10, s), 5, 1500 * ms, 7},
		{"idle", log(10, s), log(10, 2*s), 5, s, 10},
		{"log to pre-filled, which has none", log(10, s), with(counter(10, s, 1), preFilled), 5, 0, 0},
		{"log to withheld, counted on top", log(10, s), with(tokens(10, s, 10), withheld(3)), 5, 0, 2},
		{"interval, before its refill", with(tokens(3, s, 10), byInterval), log(10, s), 5, s - 1, 5},
		{"interval, behind its refill", with(tokens(3, s, 10), byInterval), log(10, s), 5, s, 8},
	} {
		p := play(open(t, c.from))
		p.take(origin, c.spent)
		p.carry(t, c.to, origin+c.after)
		if got := p.peek(origin+c.after, 1).Remaining; got != c.want {
			t.Errorf("%s: got %d remaining, want %d", c.name, got, c.want)
		}
	}
}

// TestCarryOutlastsThePreFill: units that are carried count for as long as any,
// beside those that a pre-filled window only starts with.
func TestCarryOutlastsThePreFill(t *testing.T) {
	p := play(open(t, log(10, s)))
	now := origin + 200*ms // in sight of a pre-filled window are 8 of its 10
	p.take(now, 5)
	p.carry(t, with(counter(10, s, 1), preFilled), now)
	if got := p.peek(now, 1).Remaining; got != 0 {
		t.Errorf("at the change: got %d remaining, want 0", got)
	}
	if got := p.peek(origin+s, 1).Remaining; got != 5 {
		t.Errorf("when the pre-filled window is out of sight: got %d remaining, want 5", got)
	}
}

// TestInvariant24LimitsInTurn changes a limit to and fro at every step, as two
// versions of a program on one store would.
func TestInvariant24LimitsInTurn(t *testing.T) {
	for _, text := range []string{
		"10/min sliding-log", "10/min sliding-histogram precision 3", "10/min sliding-counter conservative",
		"10/min fixed-window", "10/min burst 10", "10/min burst 5 leaky-bucket nodelay",
	} {
		t.Run(text, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				one := sluice.MustParseLimit(text)
				two := one
				two.Quota = rapid.Int64Range(1, 40).Draw(t, "quota")
				limits := []sluice.Limit{one, two}
				p := play(open(t, one))
				now := drawStart(t, one)
				for i := range rapid.IntRange(2, 80).Draw(t, "steps") {
					now += rapid.Int64Range(0, 20_000_000).Draw(t, "gap")
					p.carry(t, limits[i%2], now)
					p.step(now, event{Op: sluice.OpTake, Cost: rapid.Int64Range(1, 4).Draw(t, "cost")})
				}
				larger := one
				larger.Quota = max(one.Quota, two.Quota)
				checkBounds(t, larger, p.ledger)
			})
		})
	}
}
