// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestNextWaits: a take that costs more units than remain passes, and the next waits
// until all but Burst is paid. A cost above Burst and Debt never fits.
func TestNextWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		steps []step
	}{
		{"Guava SmoothBursty: acquire(10) of none passes, the next waits 2 s", with(tokens(5, s, 5), debtOf(100), nextWaits, deficit(5)), []step{
			{0, take, 10, pass, 0, noRetry, 3 * s, noDelay},
			{0, take, 1, deny, 0, 2 * s, 3 * s, noDelay},
			{2*s - 1, take, 0, deny, 0, 1, s + 1, noDelay},
			{2 * s, take, 1, pass, 0, noRetry, 1200 * ms, noDelay},
			{2 * s, take, 1, deny, 0, 200 * ms, 1200 * ms, noDelay},
		}},
		{"above Burst and Debt", with(tokens(1, s, 2), debtOf(3), nextWaits), []step{
			{0, take, 6, deny, 5, neverFit, 0, noDelay},
			{0, take, 5, pass, 0, noRetry, 5 * s, noDelay},
			{3*s - 1, take, 1, deny, 0, 1, 2*s + 1, noDelay},
			{3 * s, take, 4, deny, 3, s, 2 * s, noDelay},
			{3 * s, upTo, 4, pass, 0, noRetry, 5 * s, noDelay},
		}},
		{"by interval", with(tokens(3, s, 5), byInterval, debtOf(7), nextWaits), []step{
			{0, take, 12, pass, 0, noRetry, 4 * s, noDelay},
			{2 * s, take, 1, deny, 0, s, 2 * s, noDelay},
			{3 * s, take, 10, deny, 9, s, s, noDelay},
			{3 * s, take, 9, pass, 0, noRetry, 4 * s, noDelay},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runTrace(t, one(c.limit), c.steps) })
	}
}

// TestBoundOfNextWaitsIsReachedByTakes: with next-waits, takes reach the bound, which only
// charges reach for another limit with a debt.
func TestBoundOfNextWaitsIsReachedByTakes(t *testing.T) {
	for _, l := range []sluice.Limit{
		with(tokens(7, s, 5), debtOf(9), nextWaits),
		with(tokens(3, s, 5), byInterval, debtOf(7), nextWaits),
		with(tokens(3, s, 5), aligned, debtOf(7), nextWaits),
	} {
		for _, d := range []int64{2, 100 * ms, s, s + 1, 10 * s} {
			a := open(t, l)
			var book admissions
			first := origin
			if testkit.Token(l).Refill != sluice.Continuous { // a refill ends the first µs behind its start
				book.add(first, a.take(first, 1).Spent)
				first += s - 1
			}
			book.add(first, a.upTo(first, l.Burst).Spent)
			for now := first + 1; now < first+d-1; now += max((d-2)/97, 1) {
				room := a.peek(now, 1).Remaining - l.Debt
				if room > 0 {
					book.add(now, a.upTo(now, room).Spent)
				}
			}
			if testkit.Token(l).Refill == sluice.Continuous {
				book.add(first+d-1, a.upTo(first+d-1, sluice.MaxQuota).Spent)
			} else if room := a.peek(first+d-1, 1).Remaining; room > 0 {
				book.add(first+d-1, a.upTo(first+d-1, room).Spent)
			}
			got, most := book.most(d), algo.Bound(l, dur(d))
			if got > most || got < most-1 {
				t.Errorf("%v: %d units within %v, want %d or one less", l, got, dur(d), most)
			}
		}
	}
}

// TestNextWaitsOfSeveral: each of several limits lends by itself, and none may owe units above
// its Burst.
func TestNextWaitsOfSeveral(t *testing.T) {
	a := open(t, with(tokens(10, s, 10), debtOf(20), nextWaits).WithName("a"), tokens(40, m, 40).WithName("b"))
	if d := a.take(origin, 31); d.Allowed || !d.TooLarge || d.Binding != 0 {
		t.Fatalf("more than the first holds: %+v", d)
	}
	if d := a.take(origin, 30); !d.Allowed || a.out[0].Remaining != 0 || a.out[1].Remaining != 10 {
		t.Fatalf("got %+v, %+v", d, a.out)
	}
	if d := a.take(origin+s, 1); d.Allowed || d.Binding != 0 || d.RetryAfter != time.Second {
		t.Fatalf("the next before the debt is paid: %+v", d)
	}
	if d := a.upTo(origin+2*s, 30); !d.Allowed || d.Spent != 11 {
		t.Fatalf("as many as both have: %+v", d)
	}
}

// TestNextWaitsGivesBack: a settled cost pays the debt at once.
func TestNextWaitsGivesBack(t *testing.T) {
	a := open(t, with(tokens(1, s, 1), debtOf(99), nextWaits))
	d := a.take(origin, 100)
	if back := a.refund(origin+10*s, 60, d); back.Spent != -60 {
		t.Fatalf("a refund of 60: %+v", back)
	}
	if next := a.take(origin+10*s, 1); next.RetryAfter != 29*time.Second {
		t.Errorf("of 40 units 10 are paid: got %+v, want a retry after 29 s", next)
	}
}
