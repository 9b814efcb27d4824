// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// staysOut returns StaysOut of a limit.
func staysOut(l sluice.Limit) time.Duration {
	plan, err := sluice.Compile("stays out", l)
	if err != nil {
		return 0
	}
	t := plan.Term(0)
	switch {
	case continuous(t):
		return micros(t.Rate.Times(t.Debt + 1).Ceil())
	case t.Burst > 0:
		return micros(ceilDiv(t.Debt+1, t.Quota) * t.Micros)
	case t.Calendar != sluice.NoCalendar:
		return micros(t.Micros + calendarSlack)
	case t.Kind == compiled.SlidingCounter:
		return micros(counterStaysOut(t))
	default:
		return micros(t.Micros)
	}
}

// counterStaysOut is staysOut for a sliding counter, in µs: the time from the start of a
// full sub-window until there is room for a unit. All earlier sub-windows have expired by
// then.
func counterStaysOut(t *sluice.Term) int64 {
	full, owed := t.Quota, t.Debt%t.Quota // owed after whole quotas are paid
	paid := t.Debt / t.Quota * run(t) * t.Sub
	switch {
	case t.Conservative, t.Whole:
		return paid + sight(t)
	case t.Strict: // full·(Sub−e) ≤ (Quota−owed−1)·Sub
		e, rem := span.MulDiv(owed+1, t.Sub, full)
		return paid + sight(t) - t.Sub + e + min(rem, 1)
	case t.Debt == 0: // full·(Sub−e) < Quota·Sub, with one denied unit more
		full, owed = full+1, 1
	}
	e, _ := span.MulDiv(owed, t.Sub, full) // full·(Sub−e) < (Quota−owed)·Sub
	return paid + sight(t) - t.Sub + e + 1
}

// micros returns n µs as a Duration.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// retryAfter returns the RetryAfter of a cost that fits in wait µs, and whether it never fits.
func retryAfter(wait int64) (after time.Duration, tooLarge bool) {
	if wait > sluice.MaxRetryAfter.Microseconds() {
		return sluice.MaxRetryAfter, wait == never
	}
	return micros(wait), false
}
