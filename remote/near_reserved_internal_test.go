// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestUsesWithinBound: whatever is granted under the stricter limit, and however late it is
// used before the end that usable returns, the uses stay within the bound of the limit itself.
// No near is involved: grants come as greedily as possible, around the edges, and most are
// used at the last moment.
func TestUsesWithinBound(t *testing.T) {
	for _, c := range leasable {
		t.Run(c.name, func(t *testing.T) {
			l := sluice.MustParseLimit(c.limit)
			for seed := range uint64(testkit.Steps(15, 150)) {
				rng := rand.New(rand.NewPCG(seed, 1))
				given := sluice.LeaseTerms{TTL: time.Duration(1+rng.Int64N(150_000)) * time.Microsecond}
				w := newWorld(t, seed, 1, l, given, faults{})
				for range 150 {
					w.now += w.gap(l)
					w.greedy(l)
				}
				for _, d := range []int64{1, 2, w.info.ttl / 2, w.info.ttl, 100_000, 500_000, 999_999, 1_000_000, 1_000_000 + w.info.ttl, 1_999_999, 2_500_000} {
					span := time.Microsecond * time.Duration(max(d, 1))
					if over := w.over(l, span); over > 0 {
						t.Fatalf("seed %d, TTL %v: %d units over the bound in %v", seed, given.TTL, over, span)
					}
				}
			}
		})
	}
}

// gap returns the time until the next grant: often it ends just before or after an edge or the
// end of a TTL.
func (w *world) gap(l sluice.Limit) int64 {
	window := l.Window.Microseconds()
	near := w.rng.Int64N(7) - 3
	var gap int64
	switch w.rng.IntN(6) {
	case 0:
		gap = w.info.ttl + near
	case 1:
		gap = window - w.now%window + near
	case 2:
		gap = w.info.plan.Term(0).Sub - w.now%w.info.plan.Term(0).Sub + near
	case 3:
		gap = window + near
	case 4:
		gap = w.rng.Int64N(2 * window)
	default:
		gap = w.rng.Int64N(w.info.ttl + 1)
	}
	return max(gap, 0)
}

// greedy takes units in one of the ways in which a node does.
func (w *world) greedy(l sluice.Limit) {
	outcomes := make(sluice.Outcomes, 1)
	req := sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Cost: l.Full()}, Outcomes: &outcomes}
	switch w.rng.IntN(4) {
	case 0:
		req.Op, req.Cost = sluice.OpTake, 1+w.rng.Int64N(l.Full())
	case 1:
		req.Op, req.Cost = sluice.OpReserve, 1+w.rng.Int64N(l.Full())
		req.MaxWait = time.Duration(w.info.ttl) * time.Microsecond
	}
	d := w.decide(req)
	if !d.Allowed {
		return
	}
	ttl, _ := w.info.usable(int64(d.At), d.Delay.Microseconds(), outcomes)
	late := ttl
	switch w.rng.IntN(4) {
	case 0:
		late = w.rng.Int64N(ttl + 1)
	case 1:
		late = 0
	}
	w.uses = append(w.uses, use{int64(d.At) + late, d.Spent})
}

const millis = int64(time.Millisecond)

// granted returns a lease of 5 units, granted at once or for later: the request was sent at
// 100 ms of the node's clocks, the answer arrived at 110 ms.
func granted(t *testing.T, delay time.Duration) *lease {
	t.Helper()
	plan := testkit.Plan(t, "hold", "100/s sliding-log")
	l := &lease{info: leasedInfo(t, plan, sluice.LeaseTerms{TTL: 50 * time.Millisecond, Units: 10}), dry: delay > 0}
	op := sluice.OpTakeUpTo
	if delay > 0 {
		op = sluice.OpReserve
	}
	q := &question{op: op, cost: 1, units: 6, sent: both(100 * millis), outcomes: make([]sluice.Outcome, 1)}
	at := sluice.Instant(worldStart) + sluice.Instant(delay.Microseconds())
	d := sluice.Decision{Allowed: true, Spent: 6, Remaining: 94, Delay: delay, At: at, Due: at}
	got, ok := l.applyAnswer(q, both(110*millis), d)
	if !ok || got.Allowed != (delay == 0) {
		t.Fatalf("answered: %+v, %v", got, ok)
	}
	return l
}

func both(ns int64) moment { return moment{mono: ns, wall: ns} }

// TestWhenUnitsMayBeSpent: units may be spent until a TTL after the request was sent, even by
// a clock that is slow by a part in Drift, or that stood still; and not before their turn,
// even by a clock that is fast or was set forward.
func TestWhenUnitsMayBeSpent(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		at    moment
		want  bool
	}{
		{"at once", 0, both(110 * millis), true},
		{"just before the end", 0, both(150*millis - 50_002), true},
		{"at the end, less the drift", 0, both(150*millis - 50_000), false},
		{"at the end", 0, both(150 * millis), false},
		{"the machine slept", 0, moment{mono: 120 * millis, wall: 150 * millis}, false},
		{"the wall clock was set back", 0, moment{mono: 150 * millis, wall: 120 * millis}, false},
		{"before its turn", 20 * time.Millisecond, both(129 * millis), false},
		{"at its turn by a fast clock", 20 * time.Millisecond, both(130 * millis), false},
		{"at its turn, more the drift", 20 * time.Millisecond, both(130*millis + 20_022), true},
		{"its turn by the wall clock only", 20 * time.Millisecond, moment{mono: 120 * millis, wall: 140 * millis}, false},
		{"its turn by the monotonic clock only", 20 * time.Millisecond, moment{mono: 140 * millis, wall: 120 * millis}, false},
		{"reserved, just before the end", 20 * time.Millisecond, both(170*millis - 70_002), true},
		{"reserved, at the end", 20 * time.Millisecond, both(170*millis - 70_000), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d, ok := granted(t, c.delay).take(c.at, 1, nil); (ok && d.Allowed) != c.want {
				t.Errorf("allowed %v (known %v), want %v", d.Allowed, ok, c.want)
			}
			if _, ok := granted(t, c.delay).peek(c.at, 1, nil); ok != c.want {
				t.Errorf("peek: %v, want %v", ok, c.want)
			}
		})
	}
}

// TestReservedRetryAfter: a call before the units' turn learns when that is.
func TestReservedRetryAfter(t *testing.T) {
	l := granted(t, 20*time.Millisecond)
	at := both(115 * millis)
	out := make([]sluice.Outcome, 1)
	d, ok := l.take(at, 1, out)
	if !ok || d.Allowed || d.RetryAfter <= 15*time.Millisecond || d.RetryAfter > 15*time.Millisecond+25*time.Microsecond {
		t.Fatalf("take: %+v, %v; want denied for about 15ms", d, ok)
	}
	if out[0].Allowed || out[0].RetryAfter != d.RetryAfter {
		t.Errorf("outcome %+v", out[0])
	}
	after := at.mono + int64(d.RetryAfter)
	if d, _ := l.take(both(after), 1, nil); !d.Allowed || d.Delay != 0 || d.Due != d.At {
		t.Errorf("after RetryAfter: %+v, want it allowed at once", d)
	}
	for range 5 {
		if d, _ := l.take(both(after), 1, nil); !d.Allowed {
			t.Errorf("units left of 6: %+v", d)
		}
	}
	if _, ok := l.take(both(after), 1, nil); ok {
		t.Error("a seventh unit of 6")
	}
}

// TestDeniedUntil: a denial is remembered until the µs before the cost fits; for a leased plan
// also by a clock that is slow by a part in Drift.
func TestDeniedUntil(t *testing.T) {
	plan := testkit.Plan(t, "hold", "100/s sliding-log")
	d := sluice.Decision{RetryAfter: 500 * time.Millisecond}
	plain := newDenial(&planInfo{plan: plan}, 1, 7, 9, int64(bounds.MaxDenialAge), &d)
	leased := newDenial(leasedInfo(t, plan, sluice.LeaseTerms{TTL: time.Millisecond}), 1, 7, 9, int64(bounds.MaxDenialAge), &d)
	if want := 7 + 500*millis - 1000; plain.until != want || leased.until != want-(want-7)/bounds.Drift-1 {
		t.Errorf("until %d and %d, want %d and a part in %d less", plain.until, leased.until, want, bounds.Drift)
	}
}

// TestUsableUntilEdge: a lease ends before the next edge of any of its limits after the
// instant at which its units count, which is later for reserved units.
func TestUsableUntilEdge(t *testing.T) {
	plan := testkit.Compile(t, "edge", sluice.MustParseLimit("100/s sliding-log"), sluice.MustParseLimit("100/min fixed-window"))
	pi := leasedInfo(t, plan, sluice.LeaseTerms{TTL: 50 * time.Millisecond})
	for _, c := range []struct {
		name    string
		wait    int64
		reset   time.Duration // of the fixed window
		want    int64
		wantCut bool
	}{
		{"far from the edge", 0, 30 * time.Second, 50_000, false},
		{"the edge just behind the TTL", 0, 50_002 * time.Microsecond, 50_000, false},
		{"the edge at the TTL", 0, 50 * time.Millisecond, 49_999, true},
		{"the edge at once", 0, time.Microsecond, 0, true},
		{"reserved", 10_000, 50 * time.Millisecond, 39_999, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			outcomes := []sluice.Outcome{{ResetAfter: time.Second}, {ResetAfter: c.reset}}
			if got, cut := pi.usable(worldStart, c.wait, outcomes); got != c.want || cut != c.wantCut {
				t.Errorf("usable for %d µs, cut %v; want %d, %v", got, cut, c.want, c.wantCut)
			}
		})
	}
}
