// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// spans returns lengths of time that a bound is checked for, in µs.
func spans(l sluice.Limit) []int64 {
	w, p := window(l), part(l)
	return []int64{1, 2, p, w / 3, w - p, w - p + 2, w - 1, w, w + 1, w + p, 2*w - 1, 2 * w, 2*w + 1, 3*w + w/2, 5 * w}
}

// checkBounds fails if the admissions has more in any span than the limit's bound.
func checkBounds(t rapid.TB, l sluice.Limit, book admissions) {
	t.Helper()
	for _, d := range spans(l) {
		if d <= 0 {
			continue
		}
		if got, most := book.most(d), algo.Bound(l, dur(d)); got > most {
			t.Fatalf("%v: %d units within %d µs, want at most %d: %v", l, got, d, most, book)
		}
	}
}

// checkBoundsOfChange is checkBounds for limits that took turns.
func checkBoundsOfChange(t rapid.TB, book admissions, limits ...sluice.Limit) {
	t.Helper()
	for _, l := range limits {
		for _, d := range spans(l) {
			if d <= 0 {
				continue
			}
			if got, most := book.most(d), algo.Bound(limits[0], dur(d), limits[1:]...); got > most {
				t.Fatalf("%v: %d units within %d µs, want at most %d: %v", limits, got, d, most, book)
			}
		}
	}
}

// boundHolds plays random requests of every operation.
func boundHolds(t *rapid.T, l sluice.Limit) {
	p := play(open(t, l))
	now := drawStart(t, l)
	for _, e := range drawTrace(t, l, 60) {
		now += e.Gap
		p.step(now, e)
	}
	checkBounds(t, l, p.admissions)
}

func TestInvariant01NeverOverQuotaInAnyWindow(t *testing.T) {
	exact := func(l sluice.Limit) bool {
		return of(sluice.SlidingLog{}, sluice.SlidingHistogram{})(l) || testkit.Counter(l).Conservative
	}
	eachVariant(t, exact, func(t *rapid.T, l sluice.Limit) {
		if got, want := algo.Bound(l, l.Window), l.Quota+l.Debt; got != want {
			t.Fatalf("the bound is %d, want the quota and debt of %d", got, want)
		}
		boundHolds(t, l)
	})
}

func TestInvariant02FixedWindowTwiceAcrossAnEdge(t *testing.T) {
	eachVariant(t, of(sluice.FixedWindow{}), func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := drawStart(t, l)
		perWindow := make(map[int64]int64)
		for _, e := range drawTrace(t, l, 60) {
			now += e.Gap
			d := p.step(now, e)
			if d.Spent > 0 && !testkit.Fixed(l).OnFirst {
				start := int64(d.At) - int64(d.At)%window(l)
				if testkit.Fixed(l).Calendar != sluice.NoCalendar {
					start, _ = algo.CalendarWindow(p.plan.Term(0), int64(d.At))
				}
				if e.Op != sluice.OpRefund {
					perWindow[start] = p.inWindow(start, int64(d.At))
				}
			}
		}
		for start, units := range perWindow {
			if units > l.Quota+l.Debt {
				t.Fatalf("%v: %d units in the window from %d", l, units, start)
			}
		}
		checkBounds(t, l, p.admissions)
	})
}

// inWindow returns what the admissions holds from start up to at.
func (p *player) inWindow(start, at int64) int64 { return p.admissions.within(start-1, at) }

func TestInvariant03CounterWithinAnySpan(t *testing.T) {
	two := func(l sluice.Limit) bool {
		return testkit.Is[sluice.SlidingCounter](l) && testkit.Counter(l).SubWindows == 1 && !testkit.Counter(l).Conservative
	}
	eachVariant(t, two, func(t *rapid.T, l sluice.Limit) {
		for _, d := range spans(l) { // the bound is that of the design: Quota·(1+d/W), rounded up unless strict
			most := (l.Quota + l.Debt) * (window(l) + d)
			if !testkit.Counter(l).Strict {
				most += window(l) - 1
			}
			most /= window(l)
			if got := algo.Bound(l, dur(d)); d > 0 && got > most {
				t.Fatalf("the bound of %d µs is %d, want at most %d", d, got, most)
			}
		}
		boundHolds(t, l)
	})
}

func TestInvariant04SubWindowsWithinAnySpan(t *testing.T) {
	many := func(l sluice.Limit) bool {
		return testkit.Is[sluice.SlidingCounter](l) && testkit.Counter(l).SubWindows > 1 && !testkit.Counter(l).Conservative
	}
	eachVariant(t, many, func(t *rapid.T, l sluice.Limit) {
		if got, want := algo.Bound(l, dur(window(l)-part(l))), l.Quota+l.Debt; got != want {
			t.Fatalf("within all but a sub-window the bound is %d, want %d", got, want)
		}
		boundHolds(t, l)
	})
}

func TestInvariant05BucketWithinAnySpan(t *testing.T) {
	eachVariant(t, of(sluice.TokenBucket{}, sluice.LeakyBucket{}), func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 60) {
			now += e.Gap
			p.step(now, e)
		}
		checkBounds(t, l, p.admissions)
		if testkit.Token(l).Refill != sluice.Continuous {
			return
		}
		// All spans at once: the most of A − rate·t, in units/W.
		full := l.Filled()
		var sum, least int64
		for i, a := range p.admissions {
			drained := (a.at - p.admissions[0].at) * l.Quota
			if i == 0 || sum*window(l)-drained < least {
				least = sum*window(l) - drained
			}
			sum += a.units
			if over := sum*window(l) - drained - least; over > (full.Burst+l.Debt)*window(l) {
				t.Fatalf("%v: %d/%d units above the rate, want at most %d: %v", l, over, window(l), full.Burst+l.Debt, p.admissions)
			}
		}
	})
}
