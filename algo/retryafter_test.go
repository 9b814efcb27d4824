// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// slow returns limits whose denials may last as long as any.
func slow() []variant {
	const year = 366 * 24 * h
	yearly := sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Year, Zone: "Asia/Seoul", From: sluice.Moment{Month: 4, Day: 6}}, Quota: 3}
	return []variant{
		{"bucket of 2 years", tokens(1, year, 2)},
		{"bucket of a year and a year's debt", with(tokens(1, year, 1), debtOf(1))},
		{"bucket of a year whose next waits", with(tokens(1, year, 1), debtOf(1), nextWaits)},
		{"bucket with a year's credit", with(tokens(1, year, 1), creditOf(1, year))},
		{"bucket counting denials of 2 years", with(tokens(1, year, 2), countDenied)},
		{"warm-up of 2 years", with(tokens(1, year, 2), warmUp(h))},
		{"warm-up of 2 years whose next waits", with(tokens(1, year, 1), warmUp(h), debtOf(1), nextWaits)},
		{"interval bucket of 2 years", with(tokens(1, year, 2), byInterval)},
		{"aligned bucket of 2 years", with(tokens(1, year, 2), aligned)},
		{"many units a µs", tokens(sluice.MaxQuota, µs, sluice.MaxQuota)},
		{"queue of 2 years", leaky(1, year, 2, 1)},
		{"queue of a year and a year's debt", with(leaky(1, year, 1, 1), debtOf(1))},
		{"fixed of a year with debt", with(fixed(1, year), debtOf(sluice.MaxQuota-1))},
		{"calendar year", yearly},
		{"log of a year with debt", with(log(3, year), debtOf(40))},
		{"counter of a year", with(counter(3, year/8, 1), debtOf(40))},
		{"counter of a year in parts", with(counter(3, year/9, 6), conservative, debtOf(39))},
		{"histogram of a year", with(histogram(30, year, 3), debtOf(40))},
	}
}

// everyOp is a mix of operations.
var everyOp = []sluice.Op{
	sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpCharge, sluice.OpReserve, sluice.OpReserve,
	sluice.OpRefund, sluice.OpPeek, sluice.OpAdd, sluice.OpConvert,
}

// checkCap checks that no denial lasts longer than MaxRetryAfter, and that a cost is TooLarge
// if the limit can never hold it.
func checkCap(t *rapid.T, l sluice.Limit, cost int64, d sluice.Decision) {
	t.Helper()
	switch {
	case d.RetryAfter < 0 || d.RetryAfter > sluice.MaxRetryAfter:
		t.Fatalf("%v: a cost of %d: %+v", l, cost, d)
	case d.Allowed && d.TooLarge, d.TooLarge && d.RetryAfter != sluice.MaxRetryAfter:
		t.Fatalf("%v: a cost of %d: %+v", l, cost, d)
	case d.TooLarge && cost <= l.Full(), !d.Allowed && !d.TooLarge && cost > l.Full()+testkit.Token(l).Credit:
		t.Fatalf("%v: a cost of %d of %d: %+v", l, cost, l.Full(), d)
	}
}

// TestRetryAfterHasACap: RetryAfter is bounded whatever came before, and after it the cost
// fits.
func TestRetryAfterHasACap(t *testing.T) {
	for _, v := range append(variants(), slow()...) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				l := v.limit
				p, now := play(open(t, l)), drawStart(t, l)
				for _, e := range drawTrace(t, l, 25, everyOp...) {
					now += e.Gap
					e.Cost = min(e.Cost, sluice.MaxQuota)
					d := p.step(now, e)
					if e.Op == sluice.OpTakeUpTo {
						continue // of which only the first unit is waited for
					}
					checkCap(t, l, e.Cost, d)
					if e.Op != sluice.OpTake || d.Allowed || d.TooLarge {
						continue
					}
					if again := p.fork().take(now+d.RetryAfter.Microseconds(), e.Cost); !again.Allowed {
						t.Fatalf("%v: a cost of %d is denied for %v, and then again: %+v", l, e.Cost, d.RetryAfter, again)
					}
				}
			})
		})
	}
}

// TestRetryAfterHasACapThroughChanges: the same holds if limits change while keys live.
func TestRetryAfterHasACapThroughChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var limits []sluice.Limit
		list := append(variants(), slow()...)
		for range 3 {
			limits = append(limits, rapid.SampledFrom(list).Draw(t, "variant").limit.WithName("x"))
		}
		l := limits[0]
		p, now := play(open(t, l)), drawStart(t, l)
		for range 25 {
			if rapid.IntRange(0, 2).Draw(t, "change") == 0 {
				l = rapid.SampledFrom(limits).Draw(t, "limit")
				p.change(l)
			}
			e := drawTrace(t, l, 1, everyOp...)[0]
			e.Cost = min(e.Cost, sluice.MaxQuota)
			now += e.Gap
			if d := p.step(now, e); e.Op != sluice.OpTakeUpTo {
				checkCap(t, l, e.Cost, d)
			}
		}
	})
}
