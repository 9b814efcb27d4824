// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/span"
	"github.com/sluicegate/sluice/internal/testkit"
)

// answer is the part of a decision on which the oracle and Decide must agree.
type answer struct {
	Allowed          bool
	Remaining        int64
	Retry, Reset, At int64
}

func answerOf(d sluice.Decision) answer {
	retry := d.RetryAfter.Microseconds()
	if d.TooLarge {
		retry = neverFit
	}
	return answer{d.Allowed, d.Remaining, retry, d.ResetAfter.Microseconds(), int64(d.At)}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 { return -floor(new(big.Rat).Neg(r)) }

// tokenOracle is the token bucket of the textbooks, in rational numbers: it
// holds burst units at most and gains rate units per µs.
type tokenOracle struct {
	rate, held *big.Rat
	burst      int64
	last       int64
}

func (o *tokenOracle) take(now, cost int64) answer {
	o.held.Add(o.held, new(big.Rat).Mul(o.rate, rat(now-o.last)))
	if o.last = now; o.held.Cmp(rat(o.burst)) > 0 {
		o.held.SetInt64(o.burst)
	}
	a := answer{At: now}
	missing := new(big.Rat).Sub(rat(cost), o.held)
	switch {
	case missing.Sign() <= 0:
		a.Allowed = true
		o.held.Sub(o.held, rat(cost))
	case cost > o.burst:
		a.Retry = neverFit
	default:
		a.Retry = ceil(missing.Quo(missing, o.rate))
	}
	a.Remaining = floor(o.held)
	below := new(big.Rat).Sub(rat(o.burst), o.held)
	a.Reset = ceil(below.Quo(below, o.rate))
	return a
}

// drawRate draws a bucket with quotas and windows up to the bounds.
func drawRate(t *rapid.T) sluice.Limit {
	l := sluice.Limit{
		Quota: rapid.OneOf(
			rapid.Int64Range(1, 10), rapid.Int64Range(1, 1<<17),
			rapid.SampledFrom([]int64{3, 7, 1 << 16, 1<<16 + 1, sluice.MaxQuota}), rapid.Int64Range(1, sluice.MaxQuota),
		).Draw(t, "quota"),
		Window: dur(rapid.OneOf(
			rapid.SampledFrom([]int64{1, s, m, h, 366 * 24 * h}), rapid.Int64Range(1, 1000), rapid.Int64Range(1, 366*24*h),
		).Draw(t, "window")),
		Burst: rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, sluice.MaxQuota)).Draw(t, "burst"),
	}
	if l.Validate() != nil { // more than refills in time
		l.Burst = 1
	}
	return l
}

func TestInvariant06BucketIsTokenBucketIsMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawRate(t)
		asMeter := l.WithAlgorithm(sluice.LeakyBucket{DelayAfter: l.Burst})
		bucket, meter := open(t, l), open(t, asMeter)
		rate := big.NewRat(l.Quota, l.Window.Microseconds())
		oracle := &tokenOracle{rate: rate, held: rat(l.Burst), burst: l.Burst}
		now := origin
		for range 40 {
			now += rapid.OneOf(
				rapid.Int64Range(0, 3), rapid.Int64Range(0, l.Window.Microseconds()/l.Quota+2), rapid.Int64Range(0, l.Window.Microseconds()),
			).Draw(t, "gap")
			cost := rapid.OneOf(
				rapid.Int64Range(0, 2), rapid.Int64Range(0, l.Burst), rapid.Just(l.Burst+1), rapid.Int64Range(0, sluice.MaxQuota),
			).Draw(t, "cost")
			cost = min(cost, sluice.MaxQuota)
			want := oracle.take(now, cost)
			if got := answerOf(bucket.take(now, cost)); got != want {
				t.Fatalf("%v: take %d at %d: got %+v, want %+v", l, cost, now, got, want)
			}
			if got := answerOf(meter.take(now, cost)); got != want {
				t.Fatalf("%v: take %d at %d: got %+v, want %+v", asMeter, cost, now, got, want)
			}
		}
	})
}

// wordEqualsDecide plays takes on a word and on a State.
func wordEqualsDecide(t rapid.TB, l sluice.Limit, now int64, moves []int64, costs []int64) {
	t.Helper()
	plan := compile(t, l)
	term := plan.Term(0)
	if !term.Plain {
		if testkit.Is[sluice.FixedWindow](l) && l.Quota+l.Debt < 1<<16 && !l.CountDenied {
			t.Fatalf("%v: is no word", l)
		}
		return
	}
	var idle, rem int64
	a := open(t, l)
	for i, move := range moves {
		now = max(now+move, 0)
		cost := costs[i%len(costs)]
		want := a.take(now, cost)
		var got sluice.Decision
		newIdle, newRem := algo.WordTake(term, idle, rem, now, cost, &got)
		if got != want {
			t.Fatalf("%v: take %d at %d on (%d, %d): got %+v, want %+v", l, cost, now, idle, rem, got, want)
		}
		ahead := term.Most.Ceil()
		if term.Burst == 0 {
			ahead = term.Micros
		}
		if term.Calendar != sluice.NoCalendar {
			ahead += 48 * h // some days are longer than others
		}
		if !got.Allowed && (newIdle != idle || newRem != rem) && idle-now <= ahead {
			t.Fatalf("%v: a denial has turned (%d, %d) into (%d, %d)", l, idle, rem, newIdle, newRem)
		}
		idle, rem = newIdle, newRem
		if st := a.items[0].State; idle > now && (st.Idle != idle || st.A != rem) {
			t.Fatalf("%v: the word is (%d, %d), the state %+v", l, idle, rem, st)
		}
		if idle <= now { // both may forget it from now on
			idle, rem, a.items[0].State = 0, 0, algo.State{}
		}
		if most := max(term.MostInWord, l.Quota+l.Debt); rem < 0 || rem > most {
			t.Fatalf("%v: the second number %d is more than %d", l, rem, most)
		}
		if term.Wide && idle != 0 && (idle%term.Micros != 0 || term.Inverse.Divide(idle+span.WideUnit-1)*term.Micros != idle) {
			t.Fatalf("%v: the window ends at %d, which %d stands for too", l, idle, idle+span.WideUnit-1)
		}
	}
}

func TestWordTakeEqualsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawRate(t)
		if rapid.Bool().Draw(t, "leaky") {
			l.Algorithm = sluice.LeakyBucket{DelayAfter: rapid.Int64Range(0, l.Burst).Draw(t, "delay after")}
		}
		w := l.Window.Microseconds()
		gap := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, w/l.Quota+2), rapid.Int64Range(-w, w), rapid.SampledFrom([]int64{-3 * w, -2 * h, -1}))
		cost := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, l.Burst), rapid.Int64Range(0, sluice.MaxQuota))
		wordEqualsDecide(t, l, origin, rapid.SliceOfN(gap, 1, 40).Draw(t, "gaps"), rapid.SliceOfN(cost, 1, 40).Draw(t, "costs"))
	})
}

// drawWindow returns a fixed window, about as large as a word holds.
func drawWindow(t *rapid.T) sluice.Limit {
	l := sluice.Limit{
		Algorithm: sluice.FixedWindow{},
		Quota: rapid.OneOf(
			rapid.Int64Range(1, 5), rapid.SampledFrom([]int64{1<<16 - 2, 1<<16 - 1, 1 << 16, 1<<33 - 2, 1<<33 - 1, 1 << 33, sluice.MaxQuota}), rapid.Int64Range(1, 1<<17),
		).Draw(t, "quota"),
		Window: dur(rapid.OneOf(
			rapid.SampledFrom([]int64{1, ms, s, m, h, 24 * h, span.WideUnit - 1, span.WideUnit, span.WideUnit + 1, span.WideLongest, span.WideLongest + 1, sluice.MaxWindow.Microseconds()}),
			rapid.Int64Range(1, 100*h), rapid.Int64Range(span.WideUnit, 3*span.WideUnit),
		).Draw(t, "window")),
		Debt: rapid.SampledFrom([]int64{0, 0, 1, 7, 1 << 16}).Draw(t, "debt"),
	}
	if l.Quota+l.Debt > sluice.MaxQuota {
		l.Debt = 0
	}
	switch rapid.IntRange(0, 4).Draw(t, "anchor") {
	case 0:
		onFirst(&l)
	case 1:
		daily("Europe/Berlin")(&l)
	}
	return l
}

func TestWordTakeOfWindowEqualsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawWindow(t)
		w := max(l.Window.Microseconds(), 1)
		gap := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, w/2), rapid.Int64Range(-w, w), rapid.SampledFrom([]int64{-3 * w, -2 * h, -1, w - 1, w, w + 1, 1 << 53}))
		cost := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, l.Quota), rapid.Int64Range(0, sluice.MaxQuota), rapid.Just(l.Quota-1))
		wordEqualsDecide(t, l, origin, rapid.SliceOfN(gap, 1, 40).Draw(t, "gaps"), rapid.SliceOfN(cost, 1, 40).Draw(t, "costs"))
	})
}

func FuzzWordTake(f *testing.F) {
	f.Add(int64(3), int64(1e6), int64(3), int64(0), int64(1), int64(333_333), int64(1))
	f.Add(int64(65_536), int64(60e6), int64(20), int64(5), int64(2), int64(916), int64(3))
	f.Add(int64(1), int64(366*24*3600*1e6), int64(1), int64(1), int64(0), int64(-7200e6), int64(1))
	f.Fuzz(func(t *testing.T, quota, windowMicros, burst, delayAfter, debt, move, cost int64) {
		if windowMicros > sluice.MaxWindow.Microseconds() || cost < 0 || cost > sluice.MaxQuota || move < -1e15 || move > 1e15 {
			return
		}
		l := sluice.Limit{Quota: quota, Window: time.Duration(windowMicros) * time.Microsecond, Burst: burst, Debt: debt}
		if delayAfter != 0 {
			l.Algorithm = sluice.LeakyBucket{DelayAfter: delayAfter}
		}
		if l.Validate() != nil {
			return
		}
		wordEqualsDecide(t, l, origin, []int64{0, move, 1, move, 0, -move, move / 2, 3}, []int64{cost, 1, cost / 2})
	})
}

// TestShortcutEqualsDecide: the shortcut for a take under one limit without outcomes gives
// the same decision.
func TestShortcutEqualsDecide(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		short, long := play(open(t, l)), play(open(t, l))
		short.bare = true
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40) {
			now += e.Gap
			if got, want := short.step(now, e), long.step(now, e); got != want {
				t.Fatalf("%v: %v %d: without outcomes got %+v, with %+v", l, e.Op, e.Cost, got, want)
			}
			if o := long.out[0]; e.Op == sluice.OpTake && o.Remaining < 0 {
				t.Fatalf("outcome %+v", o)
			}
			if got, want := short.states()[0], long.states()[0]; !equalStates(got, want) {
				t.Fatalf("%v: without outcomes the state is %+v, with %+v", l, got, want)
			}
		}
	})
}
