// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// logOracle is a sliding log that remembers everything.
type logOracle struct {
	quota, window int64
	book          admissions
}

func (o *logOracle) count(now int64) int64 { return o.book.within(now-o.window, now) }

func (o *logOracle) take(now, cost int64) answer {
	a := answer{At: now, Allowed: o.count(now)+cost <= o.quota}
	switch {
	case a.Allowed:
		if cost > 0 {
			o.book.add(now, cost)
		}
	case cost > o.quota:
		a.Retry = neverFit
	default:
		for _, e := range o.book { // the first expiry behind which it fits
			if at := e.at + o.window; at > now && o.count(at)+cost <= o.quota {
				a.Retry = at - now
				break
			}
		}
	}
	a.Remaining = o.quota - o.count(now)
	if n := len(o.book); n > 0 {
		a.Reset = max(o.book[n-1].at+o.window-now, 0)
	}
	return a
}

func TestLogEqualsOracle(t *testing.T) {
	plainLog := func(l sluice.Limit) bool { return testkit.Is[sluice.SlidingLog](l) && !l.CountDenied }
	eachVariant(t, plainLog, func(t *rapid.T, l sluice.Limit) {
		a, o := open(t, l), &logOracle{quota: l.Quota, window: window(l)}
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 60, sluice.OpTake) {
			now += e.Gap
			if got, want := answerOf(a.take(now, e.Cost)), o.take(now, e.Cost); got != want {
				t.Fatalf("take %d at %d: got %+v, want %+v", e.Cost, now, got, want)
			}
		}
	})
}

func TestInvariant07HistogramIsTheLogWhileSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(3, 40).Draw(t, "precision")
		quota := rapid.Int64Range(1, 2*int64(k)-1).Draw(t, "quota")
		l, exact := histogram(quota, s, k), log(quota, s)
		a, b := play(open(t, l)), play(open(t, exact))
		now := drawStart(t, l)
		for range 4 * quota {
			e := event{Op: sluice.OpTake, Cost: 1}
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				e.Cost = rapid.Int64Range(0, quota).Draw(t, "cost")
			}
			now += rapid.Int64Range(0, 2*s/quota).Draw(t, "gap")
			if got, want := a.step(now, e), b.step(now, e); got != want {
				t.Fatalf("quota %d precision %d: got %+v, the log %+v", quota, k, got, want)
			}
		}
	})
}

// TestInvariant07HistogramMergesNothingBelowTwiceItsPrecision fills histograms
// to the last unit, one by one.
func TestInvariant07HistogramMergesNothingBelowTwiceItsPrecision(t *testing.T) {
	for k := 33; k <= 64; k++ {
		quota := 2*int64(k) - 1
		a, exact := open(t, histogram(quota, s, k)), open(t, log(quota, s))
		for i := range 4 * quota {
			now := origin + i*(s/quota-1)
			if got, want := a.take(now, 1), exact.take(now, 1); got != want {
				t.Fatalf("precision %d, take %d: got %+v, the log %+v", k, i+1, got, want)
			}
		}
	}
}

// TestInvariant07HistogramDeniesLittleTooMuch loads histograms beyond their
// quota, evenly, in bursts and with large costs.
func TestInvariant07HistogramDeniesLittleTooMuch(t *testing.T) {
	for _, c := range []struct {
		quota     int64
		precision int
	}{{10, 3}, {100, 3}, {1000, 3}, {1000, 12}, {100_000, 12}, {1_000_000, 32}, {1000, 32}, {5000, 1024}} {
		l := histogram(c.quota, s, c.precision)
		// As many words as double the sum some times over, at k−1 a doubling.
		k := float64(c.precision)
		words := int(math.Ceil(2*k*(math.Log2(float64(c.quota)/k+1)+2))) + 64
		for seed := range uint64(6) {
			rnd := rand.New(rand.NewPCG(seed, 8))
			a := open(t, l)
			var book admissions
			denials, now := 0, origin
			for range 4000 {
				switch rnd.IntN(3) {
				case 0:
					now += rnd.Int64N(max(2*s/c.quota, 2))
				case 1:
					now += rnd.Int64N(s / 500)
				}
				cost := int64(1)
				switch {
				case seed%3 == 1:
					cost = 1 + rnd.Int64N(c.quota/50+1)
				case seed%3 == 2 && rnd.IntN(100) == 0:
					cost = 1 + rnd.Int64N(c.quota)
				}
				// At any instant at most one entry counts units that have expired.
				ahead := now + rnd.Int64N(s)
				counted, count := c.quota-a.peek(ahead, 1).Remaining, book.within(ahead-s, ahead)
				if counted < count || counted > 0 && count*int64(c.precision-1) <= int64(c.precision-2)*counted {
					t.Fatalf("%v: %d are counted of %d", l, counted, count)
				}
				if d := a.take(now, cost); d.Allowed {
					book.add(now, cost)
				} else {
					denials++
					// true count > (1−1/(k−1))·(Quota−c), in integers
					count := book.within(now-s, now)
					if count*int64(c.precision-1) <= int64(c.precision-2)*(c.quota-cost) {
						t.Fatalf("%v: denied a cost of %d, though only %d of %d count", l, cost, count, c.quota)
					}
				}
				if got := a.items[0].State.Len; got > words {
					t.Fatalf("%v: %d words, want at most %d", l, got, words)
				}
			}
			if got := book.most(s); got > c.quota {
				t.Fatalf("%v: %d within a window", l, got)
			}
			if denials == 0 && c.quota <= 1000 {
				t.Errorf("%v: no request was denied", l)
			}
		}
	}
}

// TestHistogramSize fills a histogram one unit at a time, as the worst load does.
func TestHistogramSize(t *testing.T) {
	l := histogram(1_000_000, m, 24)
	plan := compile(t, l)
	item := []algo.Item{{Term: plan.Term(0), Cost: 1}}
	req := sluice.Request{Charge: sluice.Charge{Plan: plan, Cost: 1}}
	most := 0
	for i := range int64(2_200_000) {
		algo.Decide(&req, item, origin+i*60)
		most = max(most, len(item[0].State.Ring))
	}
	if bytes := 8 * most; bytes > 3600 {
		t.Errorf("a full histogram takes %d bytes, want at most 3,600", bytes)
	}
}
