// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestWarmUp: the takes of a cold key, each as soon as it passes, are far apart at
// first, as those of Guava's RateLimiter.create(2, 4, SECONDS) are.
func TestWarmUp(t *testing.T) {
	runTrace(t, one(sluice.MustParseLimit("2/s warm-up 4s")), []step{
		{0, take, 2, deny, 1, neverFit, 0, noDelay},
		{0, take, 1, pass, 0, noRetry, 1875 * ms, noDelay},
		{1375*ms - 1, take, 1, deny, 0, 1, 500*ms + 1, noDelay},
		{1375 * ms, take, 1, pass, 0, noRetry, 2125 * ms, noDelay},
		{2500 * ms, take, 1, pass, 0, noRetry, 2375 * ms, noDelay},
		{3375 * ms, take, 1, pass, 0, noRetry, 2625 * ms, noDelay},
		{4000 * ms, take, 1, pass, 0, noRetry, 3 * s, noDelay},
		{4500 * ms, take, 1, pass, 0, noRetry, 3500 * ms, noDelay},
		{5 * s, take, 1, pass, 0, noRetry, 4 * s, noDelay},
		{5500 * ms, take, 1, pass, 0, noRetry, 4500 * ms, noDelay},
		{6 * s, take, 1, pass, 0, noRetry, 4500 * ms, noDelay}, // no warmer than warm
		{7*s + 500*ms, take, 1, pass, 0, noRetry, 4 * s, noDelay},
		{11 * s, take, 1, pass, 0, noRetry, 2125 * ms, noDelay},
		{20 * s, take, 1, pass, 0, noRetry, 1875 * ms, noDelay},
	})
}

// inTurn returns when each of the units that come at instants is served, one behind
// the other.
func inTurn(a *account, arrivals []int64) (at []int64) {
	now := origin
	for _, arrival := range arrivals {
		now = max(now, arrival)
		d := a.take(now, 1)
		for range 3 {
			if d.Allowed {
				break
			}
			now += d.RetryAfter.Microseconds()
			d = a.take(now, 1)
		}
		if !d.Allowed {
			a.t.Fatalf("who waits as long as reported is denied: %+v", d)
		}
		at = append(at, now)
	}
	return at
}

// drawWarmUp draws limits from units of less than a µs to units of days.
func drawWarmUp(t *rapid.T) sluice.Limit {
	l := drawRate(t)
	b := sluice.TokenBucket{WarmUp: dur(rapid.OneOf(
		rapid.SampledFrom([]int64{1, 2, ms, s, h}), rapid.Int64Range(1, 10*ms), rapid.Int64Range(1, h),
	).Draw(t, "warm-up"))}
	if rapid.Bool().Draw(t, "about as long as a unit") {
		b.WarmUp = dur(min(max(part(l)*rapid.Int64Range(1, 12).Draw(t, "units")/4, 1), h))
	}
	if l.Debt = rapid.SampledFrom([]int64{0, 1, 9}).Draw(t, "debt"); l.Debt > 0 {
		b.NextWaits = rapid.Bool().Draw(t, "next waits")
	}
	l.Algorithm = b
	if l.Validate() != nil {
		l.Debt, b.NextWaits = 0, false
		l.Algorithm = b
	}
	return l
}

// TestLate: units come no sooner than in the bucket without warm-up, and at most Late
// later. If all units of a cold key are taken, they come Late later.
func TestLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawWarmUp(t)
		l.Debt = 0
		testkit.Set(&l, func(b *sluice.TokenBucket) { b.NextWaits = false })
		l.Burst = min(l.Burst, 8)
		without := with(l.Filled(), warmUp(0))
		var arrivals []int64
		now := origin
		for range 60 {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*part(l)), rapid.Int64Range(0, 2*testkit.Token(l).WarmUp.Microseconds())).Draw(t, "gap")
			arrivals = append(arrivals, now)
		}
		late := algo.WorstOf(l).Late.Microseconds()
		warm := inTurn(open(t, l), arrivals)
		for i, at := range inTurn(open(t, without), arrivals) {
			if d := warm[i] - at; d < 0 || d > late {
				t.Fatalf("%v: unit %d comes %d µs later, want 0 to %d", l, i, d, late)
			}
		}
	})
	for _, l := range []sluice.Limit{
		sluice.MustParseLimit("2/s warm-up 4s"), sluice.MustParseLimit("3/s warm-up 4001us burst 3"), sluice.MustParseLimit("3/s warm-up 17s burst 3"),
		sluice.MustParseLimit("1/day warm-up 1h"), sluice.MustParseLimit("7/us warm-up 99us burst 20"), sluice.MustParseLimit("1000003/min warm-up 1009ms"),
	} {
		l = l.Filled()
		arrivals := make([]int64, 2+l.Burst+testkit.Token(l).WarmUp.Microseconds()*l.Quota/window(l))
		warm := inTurn(open(t, l), arrivals)
		last := len(warm) - 1
		if d := warm[last] - inTurn(open(t, with(l, warmUp(0))), arrivals)[last]; d != algo.WorstOf(l).Late.Microseconds() {
			t.Errorf("%v: a cold key is late by %d µs, want %v", l, d, algo.WorstOf(l).Late)
		}
	}
	for l, want := range map[string]time.Duration{"2/s warm-up 4s": 2 * time.Second, "2/s": 0, "9/day warm-up 1h": 30 * time.Minute} {
		if got := algo.WorstOf(sluice.MustParseLimit(l)).Late; got != want {
			t.Errorf("Late(%s) = %v, want %v", l, got, want)
		}
	}
}

// TestBoundOfWarmUpIsReached: a warm key that owes nothing admits as much as the
// bucket without warm-up, from units of less than a µs to units of days.
func TestBoundOfWarmUpIsReached(t *testing.T) {
	for _, text := range []string{
		"2/s warm-up 4s", "2/s burst 5 warm-up 4s debt 3", "3/s burst 2 warm-up 10s debt 7 next-waits", "7/us burst 20 warm-up 1ms", "5/day burst 3 warm-up 1h",
	} {
		l := sluice.MustParseLimit(text).Filled()
		for _, d := range []int64{1, part(l), window(l), 3*window(l) + 1} {
			a := open(t, l)
			now := origin
			for range 2 + testkit.Token(l).WarmUp.Microseconds()*l.Quota/window(l) {
				a.take(now, 1)
				now = a.items[0].State.Idle - a.items[0].State.B
			}
			if used := a.items[0].State.B; used != testkit.Token(l).WarmUp.Microseconds() {
				t.Fatalf("%v: used are %d µs of the warm-up", l, used)
			}
			var book admissions
			book.add(now, a.charge(now, l.Burst+l.Debt).Spent)
			for next := now; next < now+d; {
				got := a.upTo(next, sluice.MaxQuota)
				if l.Debt > 0 { // the paid part of the debt may be owed again
					got = a.charge(next, sluice.MaxQuota)
				}
				if got.Spent > 0 {
					book.add(next, got.Spent)
				}
				next += max(part(l)-1, 1)
			}
			a.do(now+d-1, sluice.Request{Op: sluice.OpPeek})
			if got := a.charge(now+d-1, sluice.MaxQuota); got.Spent > 0 {
				book.add(now+d-1, got.Spent)
			}
			// The span's first µs counts as refill time, too.
			if got, most := book.most(d), algo.Bound(l, dur(d)); got > most || got < most-1-l.Quota/window(l) {
				t.Errorf("%v: %d units within %v, want %d or so", l, got, dur(d), most)
			}
		}
	}
}

// TestMoreBurstOfAWarmUpAdmitsNoFewer: of two limits with one WarmUp and one rate, the limit
// with more Burst or Debt never admits fewer units.
func TestMoreBurstOfAWarmUpAdmitsNoFewer(t *testing.T) {
	warm := func(l sluice.Limit) bool { return testkit.Token(l).WarmUp > 0 }
	eachVariant(t, warm, func(t *rapid.T, l sluice.Limit) {
		larger := l
		larger.Burst += rapid.Int64Range(0, 3).Draw(t, "more burst")
		larger.Debt += rapid.Int64Range(0, 3).Draw(t, "more debt")
		a, b := open(t, l), open(t, larger)
		now := drawStart(t, l)
		var less, more int64
		for _, e := range drawTrace(t, l, 60, sluice.OpTake) {
			now += e.Gap
			less += a.take(now, 1).Spent
			if more += b.take(now, 1).Spent; more < less {
				t.Fatalf("at %d %v has admitted %d, %v only %d", now, l, less, larger, more)
			}
		}
	})
}

// TestWarmUpsShareAState: limits that differ only in Burst or Debt use one state,
// and a refund of units taken under another limit gives nothing back.
func TestWarmUpsShareAState(t *testing.T) {
	small, large := with(tokens(2, s, 1), warmUp(4*s)).WithName("a"), with(tokens(4, 2*s, 3), warmUp(4*s), debtOf(5)).WithName("a")
	a := open(t, small)
	took := a.take(origin, 1)
	a.change(large)
	if len(a.items[0].Others) > 0 {
		t.Fatalf("a state of its own: %+v", a.items[0])
	}
	if d := a.take(origin, 1); d.Allowed || d.RetryAfter != 375*time.Millisecond {
		t.Fatalf("1.375 s are owed, of at most 1: %+v", d)
	}
	if d := a.take(origin+375*ms, 1); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	if d := a.refund(origin+375*ms, 1, took); d.Spent != 0 {
		t.Fatalf("gave back what another limit took: %+v", d)
	}
	a.change(small)
	if d := a.take(origin+2500*ms-1, 1); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Fatalf("got %+v", d)
	}
	for _, other := range []sluice.Limit{small, with(small, warmUp(5*s)), with(small, warmUp(0)), with(small, func(l *sluice.Limit) { l.Quota = 3 })} {
		plan, otherPlan := compile(t, small), compile(t, other)
		if got, want := plan.Term(0).Form == otherPlan.Term(0).Form, other == small; got != want {
			t.Errorf("%v and %v are of one form: %v", small, other, got)
		}
	}
}

// TestWarmUpGivesBack: units given back leave the key as warm as they made it, and
// what they lasted longer is not given back.
func TestWarmUpGivesBack(t *testing.T) {
	a := open(t, with(tokens(2, s, 1), warmUp(4*s)))
	d := a.take(origin, 1)
	if back := a.refund(origin, 1, d); back.Spent != -1 {
		t.Fatalf("got %+v", back)
	}
	if d = a.take(origin, 1); d.Allowed || d.RetryAfter != 875*time.Millisecond {
		t.Fatalf("of 1.375 s half a second comes back: %+v", d)
	}
	if d = a.take(origin+875*ms, 1); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	if d = a.take(origin+875*ms, 1); d.RetryAfter != 1125*time.Millisecond {
		t.Errorf("the second unit of a key lasts 1.125 s: %+v", d)
	}
}
