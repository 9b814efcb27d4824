// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// indebted returns a counter of every rule with a debt of ten quotas.
func indebted() []sluice.Limit {
	ten := debtOf(1000)
	return []sluice.Limit{
		with(counter(100, m, 1), ten), with(counter(100, m, 1), strict, ten), with(counter(100, m, 1), conservative, ten),
		with(counter(100, m, 6), ten), with(counter(100, m, 6), strict, ten), with(counter(100, m, 6), conservative, ten), with(counter(100, m, 6), whole, ten),
		with(counter(100, m, 2), whole, ten), with(counter(100, m, 60), ten), with(counter(100, m, 60), conservative, ten),
	}
}

// TestCounterPaysItsDebt: responses whose cost is charged afterwards pass at the rate of
// the limit, whatever the cost, and no request waits longer than the debt takes to pay.
func TestCounterPaysItsDebt(t *testing.T) {
	const windows = 100
	for _, l := range indebted() {
		for _, cost := range []int64{l.Quota / 10, 2 * l.Quota, 10 * l.Quota} {
			for _, gap := range []int64{1, 90 * ms, 7*s + 1, m - 1} {
				for _, atOnce := range []int64{1, 8} {
					t.Run(fmt.Sprint(l, " cost ", cost, " gap ", gap, " at once ", atOnce), func(t *testing.T) {
						payDebt(t, l, cost, gap, atOnce, windows)
					})
				}
			}
		}
	}
}

// payDebt sends requests for a number of windows: each takes a unit, and the rest of its cost
// is charged after all requests of the same instant have passed.
func payDebt(t *testing.T, l sluice.Limit, cost, gap, atOnce int64, windows int64) {
	t.Helper()
	longest := 11 * part(l) * run(l)
	if atOnce > 1 && testkit.Counter(l).Strict { // all of quota and debt at the start of a sub-window
		longest += part(l) / l.Quota
	}
	a, now, units := open(t, l), origin, int64(0)
	for now < origin+windows*window(l) {
		in, d := int64(0), a.take(now, 1)
		if !d.Allowed {
			if d.RetryAfter.Microseconds() > longest {
				t.Fatalf("at %d a denial for %v", now-origin, d.RetryAfter)
			}
			now += d.RetryAfter.Microseconds()
			continue
		}
		for ; d.Allowed && in < atOnce; in++ {
			units += d.Spent
			if in+1 < atOnce {
				d = a.take(now, 1)
			}
		}
		for range in {
			d := a.charge(now, cost-1)
			if atOnce == 1 && d.Spent < cost-1 {
				t.Fatalf("at %d of %d units %d are counted", now-origin, cost-1, d.Spent)
			}
			units += d.Spent
		}
		if in*cost > l.Quota && a.peek(now, 1).Allowed {
			t.Fatalf("at %d another passes behind %d of %d units", now-origin, in, cost)
		}
		now += gap
	}
	most := windows * l.Quota * 5 / 4
	if atOnce > 1 {
		most = min(most, algo.Bound(l, dur(windows*window(l)+gap)))
	}
	if units > most {
		t.Errorf("%d units in %d windows, want at most %d", units, windows, most)
	}
}

// TestDebtOutlivesAnotherVersion: a limit without a Debt sees the debt of another limit of
// its name, and no unit of it is forgotten, whichever limit decides in between.
func TestDebtOutlivesAnotherVersion(t *testing.T) {
	for _, l := range indebted() {
		plain := l
		plain.Debt, plain.CountDenied = 0, true
		a, now := open(t, l), origin
		var book admissions
		book.add(now, a.charge(now, l.Quota+l.Debt).Spent)
		for now < origin+30*window(l) {
			now += part(l) / 3
			a.change(plain)
			book.add(now, a.take(now, 1).Spent)
			a.change(l)
			book.add(now, a.take(now, 1).Spent)
			book.add(now, a.charge(now, 7*l.Quota/5).Spent)
		}
		checkBoundsOfChange(t, book, l, plain)
		a.reset(now)
		if d := a.take(now, 1); !d.Allowed || d.Remaining != l.Quota-1 {
			t.Errorf("%v: after a reset got %+v", l, d)
		}
	}
}
