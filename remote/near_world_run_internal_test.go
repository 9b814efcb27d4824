// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

func sortUses(uses []use) {
	slices.SortFunc(uses, func(a, b use) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
}

// press sends requests to random nodes for some µs: factor times the limit's rate on average,
// with costs up to most and, if asked, in waves.
func (w *world) press(l sluice.Limit, micros int64, factor float64, most int64, waves bool) {
	gap := float64(l.Window.Microseconds()) / (float64(l.Quota) * factor) * float64(1+most) / 2
	for at := int64(0); ; {
		g := gap
		if waves {
			// At times far more than the rate, at times almost nothing.
			switch w.rng.IntN(40) {
			case 0:
				at += w.rng.Int64N(l.Window.Microseconds() * 3 / 2)
			case 1:
				for range w.rng.Int64N(l.Quota + 1) {
					w.arrival(at)
				}
			}
		}
		at += int64(w.rng.ExpFloat64() * g)
		if at >= micros {
			return
		}
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		cost := 1 + w.rng.Int64N(most)
		w.after(at, func() { n.arrive(cost) })
	}
}

// shortLeases is traffic that exceeds the limit if leases are shortened wrongly: requests come
// until nodes hold units, use these up at the end of the TTL, and come in masses when the
// store forgets the grants.
func (w *world) shortLeases(l sluice.Limit, micros int64) {
	ttl, full := w.info.ttl, l.Full()
	spread := func(from, over, n int64) {
		for range n {
			w.arrival(from + w.rng.Int64N(over+1))
		}
	}
	again := l.Window.Microseconds() * full / l.Quota
	for at := int64(0); at < micros; {
		spread(at, 6_000, full/2+w.rng.Int64N(full))
		spread(at+ttl*9/10, ttl/20, 3*full)
		at += again + w.rng.Int64N(ttl+1)
		if w.rng.IntN(2) == 0 {
			spread(at, 6_000, 2*full)
			at += again/2 + w.rng.Int64N(again)
		}
	}
}

func (w *world) arrival(at int64) {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	w.after(at, func() { n.arrive(1) })
}

// leasable are limits of every kind that can be leased.
var leasable = []struct{ name, limit string }{
	{"sliding-log", "50/s sliding-log"},
	{"sliding-histogram", "120/s sliding-histogram precision 4"},
	{"token-bucket", "50/s"},
	{"token-bucket small burst", "70/s burst 15"},
	{"token-bucket initial", "50/s initial 7"},
	{"interval bucket", "30/s burst 45 interval-refill"},
	{"aligned bucket", "30/s burst 45 aligned-refill"},
	{"meter", "50/s burst 20 leaky-bucket nodelay"},
	{"fixed-window", "50/s fixed-window"},
	{"fixed-window on first", "50/s fixed-window anchor first"},
	{"sliding-counter", "50/s sliding-counter"},
	{"conservative", "50/s sliding-counter sub-windows 10 conservative"},
	{"sub-windows", "50/s sliding-counter sub-windows 5"},
	{"with debt", "50/s sliding-log debt 10"},
}

var everything = faults{delay: 30_000, loss: 20, repeat: 10, crash: 150, clockSet: 300, stall: 20, drift: true}

var spans = []time.Duration{
	time.Microsecond, time.Millisecond, 10 * time.Millisecond, 137 * time.Millisecond, 500 * time.Millisecond,
	time.Second - time.Microsecond, time.Second, time.Second + time.Microsecond, 1100 * time.Millisecond, 2 * time.Second, 5 * time.Second,
}

// TestInvariant20 checks invariant 20: whatever is lost, late, repeated or dead, the units
// used in any span stay within the limit's bound. SLUICE_WORLDS sets the number of runs of
// each limit.
func TestInvariant20(t *testing.T) {
	seeds := uint64(testkit.Steps(6, 30))
	if text := os.Getenv("SLUICE_WORLDS"); text != "" {
		var err error
		if seeds, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SLUICE_WORLDS: %v", err)
		}
	}
	for _, c := range leasable {
		t.Run(c.name, func(t *testing.T) {
			l := sluice.MustParseLimit(c.limit)
			served, decisions := 0, 0
			for seed := range seeds {
				given := sluice.LeaseTerms{TTL: time.Duration(20+seed%30*5) * time.Millisecond, Units: int64(2 + seed%11)}
				if seed%3 == 2 {
					given.Nodes = 5
				}
				w := newWorld(t, seed, 5, l, given, everything)
				if seed%2 == 0 {
					w.press(l, 12_000_000, 1+float64(seed%5), 1+int64(seed%4), true)
				} else {
					w.shortLeases(l, 12_000_000)
				}
				w.run()
				served += w.allowed
				decisions += w.decisions
				for _, d := range spans {
					if over := w.over(l, d); over > 0 {
						t.Errorf("seed %d, %+v: %d units over the bound of %d in %v", seed, given, over, algo.Bound(l, d), d)
					}
				}
			}
			if served < int(seeds)*100 {
				t.Fatalf("only %d takes were allowed: this shows nothing", served)
			}
			t.Logf("%d takes, %d allowed", decisions, served)
		})
	}
}

// TestWorldFindsFaults: the simulation detects leases that count from their grant, and leases
// under the limit itself.
func TestWorldFindsFaults(t *testing.T) {
	for _, c := range []struct{ name, limit string }{
		{"sliding-log", "50/s sliding-log"},
		{"token-bucket", "50/s burst 12"},
		{"meter", "50/s burst 12 leaky-bucket nodelay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := sluice.MustParseLimit(c.limit)
			var worst int64
			for seed := range uint64(testkit.Steps(4, 40)) {
				w := newWorld(t, seed, 5, l, sluice.LeaseTerms{TTL: 200 * time.Millisecond, Units: 8}, faults{delay: 2_000})
				w.info.plan = testkit.Compile(t, "world", l)
				w.shortLeases(l, 12_000_000)
				w.run()
				for _, d := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, l.Window} {
					worst = max(worst, w.over(l, d))
				}
			}
			if worst == 0 {
				t.Fatal("never over the limit: the simulation is too tame")
			}
			t.Logf("up to %d units over", worst)
		})
	}
}

// TestHeldWithinBound: the nodes never hold more units than algo says, and unused units are
// available to others again when it says.
func TestHeldWithinBound(t *testing.T) {
	for _, c := range leasable {
		t.Run(c.name, func(t *testing.T) {
			l := sluice.MustParseLimit(c.limit)
			given := sluice.LeaseTerms{TTL: 50 * time.Millisecond, Units: 7}
			bound, err := algo.LeaseCost(testkit.Compile(t, "bound", l), given, 6)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(testkit.Steps(3, 10)) {
				w := newWorld(t, seed, 6, l, given, everything)
				w.press(l, 6_000_000, 2, 1, true)
				w.run()
				if w.most > bound[0].Held {
					t.Errorf("seed %d: nodes had %d units in hand, bound %d", seed, w.most, bound[0].Held)
				}
				if w.most == 0 {
					t.Errorf("seed %d: nothing was ever leased", seed)
				}
			}
		})
	}
}

// efficiency runs 8 nodes and a hot key at twice its limit.
func efficiency(t *testing.T, l sluice.Limit, given sluice.LeaseTerms) (calls, kept float64) {
	t.Helper()
	w := newWorld(t, 1, 8, l, given, faults{delay: 500})
	w.press(l, max(40_000_000, l.Window.Microseconds()*5/2), 2, 1, false)
	arrivals := make([]int64, 0, w.events.Len())
	for _, e := range w.events.list {
		arrivals = append(arrivals, e.at)
	}
	slices.Sort(arrivals)
	w.run()
	if over := w.over(l, l.Window); over > 0 {
		t.Errorf("%d units over", over)
	}
	if w.fell > 0 || w.allowed+w.denied != w.decisions {
		t.Errorf("%d decisions: %d allowed, %d denied, %d without an answer", w.decisions, w.allowed, w.denied, w.fell)
	}
	exact := newWorld(t, 1, 1, l, given, faults{})
	exact.info.plan = testkit.Compile(t, "exact", l)
	admitted := 0
	for _, at := range arrivals {
		exact.now = at
		if exact.decide(sluice.Request{Charge: sluice.Charge{Cost: 1}}).Allowed {
			admitted++
		}
	}
	calls, kept = float64(w.calls)/float64(w.decisions), float64(w.allowed)/float64(admitted)
	t.Logf("%-40v calls/decision %.4f, kept %.4f (%d decisions, %d allowed, exact %d)", l, calls, kept, w.decisions, w.allowed, admitted)
	return calls, kept
}

// TestEfficiency: 8 nodes use a hot key at twice its limit with default terms, except for a
// burst so small that its default TTL suits the rates of single nodes badly.
func TestEfficiency(t *testing.T) {
	for _, c := range []struct {
		limit string
		terms sluice.LeaseTerms
	}{
		{limit: "1000/s sliding-log"},
		{limit: "1000/s sliding-histogram"},
		{limit: "1000/s"},
		{limit: "1000/s burst 200", terms: sluice.LeaseTerms{TTL: 50 * time.Millisecond, Units: 8}},
		{limit: "1000/s leaky-bucket burst 1000 nodelay"},
		{limit: "1000/s interval-refill"},
		{limit: "1000/s fixed-window"},
		{limit: "1000/s sliding-counter sub-windows 10 conservative"},
		{limit: "1000/s sliding-counter"},
		{limit: "60000/min sliding-log"},
	} {
		t.Run(c.limit, func(t *testing.T) {
			calls, kept := efficiency(t, sluice.MustParseLimit(c.limit), c.terms)
			if calls > 0.13 {
				t.Errorf("%.4f calls per decision, want at most 0.13", calls)
			}
			if kept < 0.96 {
				t.Errorf("kept %.4f of what the exact limit admits, want at least 0.96", kept)
			}
		})
	}
}
