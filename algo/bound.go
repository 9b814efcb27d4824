// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"math"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// Bound returns the most units that l admits in any span (t, t+d] of time, its
// Debt and Credit included, whatever the traffic. It is never exceeded, and the worst
// traffic comes within one unit of it. Units that are added within the span come on top, and
// so do units that were added before it while units were reserved that are due within it.
// For a leaky bucket it counts units as they are admitted; see [Worst]. A limit that is not
// valid, or a span shorter than 1 µs, has a bound of 0. The largest bound is 2^63−1.
// A block has that bound: see [Worst].
//
// With others, it is the most that these limits of one scope and name admit together while they
// replace each other, in any order and however often. Units that are converted come on top.
// Buckets share one balance: their bound is that of the smallest bucket that contains them
// all. Windows that differ only in quota share their counts: their bound is that of the largest
// quota. Limits with another window or algorithm add their own bounds.
func Bound(l sluice.Limit, d time.Duration, others ...sluice.Limit) int64 {
	if len(others) > 0 {
		return boundOfChange(d, append([]sluice.Limit{l}, others...))
	}
	if d < time.Microsecond || l.Validate() != nil {
		return 0
	}
	l = l.Filled()
	quota, window, length := l.Quota+l.Debt, l.Window.Microseconds(), d.Microseconds()
	switch a := l.Algorithm.(type) {
	case sluice.TokenBucket:
		if a.Refill != sluice.Continuous {
			// A refill gives no more than is missing.
			most := l.Burst + l.Debt
			return add(most, times(min(l.Quota, most), ceilDiv(length-1, window)))
		}
		return add(l.Burst+l.Debt+a.Credit, mulDiv(length, l.Quota, window))
	case sluice.LeakyBucket:
		return add(l.Burst+l.Debt, mulDiv(length, l.Quota, window))
	case sluice.FixedWindow:
		// A span of one instant meets one window, a span one µs longer meets two.
		least := shortest(a, window)
		return times(quota, (length-1+least-1)/least+1)
	case sluice.Block:
		return math.MaxInt64
	case sluice.SlidingCounter:
		return add(counterBound(a, l.Quota, window/int64(a.SubWindows), length), l.Debt)
	default:
		return times(quota, ceilDiv(length, window))
	}
}

// counterBound is the bound of a sliding counter with sub-windows of sub µs. The
// worst span starts with the last µs of a full sub-window, and ends elapsed µs into its
// last one. Any n sub-windows in a row admit at most quota units, and so do n+1 if the
// oldest counts whole (Conservative). Otherwise the oldest counts by the part of it within the
// window, and the last sub-window may admit the rest again. The rest is rounded up, as that
// part is rounded down, unless the limit is strict. If only whole sub-windows count
// (Whole), n in a row admit quota units, and the next may admit them all again.
//
// A Debt comes on top, once. The units of a charge lie in the sub-windows that count whole,
// which hold at most quota and Debt, or in earlier ones; as many of these in a row hold at
// most quota. The oldest that counts holds at most quota; the part of that outside the window
// may be admitted again. Units never move to an earlier sub-window.
func counterBound(c sluice.SlidingCounter, quota, sub, length int64) int64 {
	if length < 2 {
		return quota
	}
	n := int64(c.SubWindows)
	behind, elapsed := (length-2)/sub+1, (length-2)%sub // sub-windows after the first
	switch {
	case c.Conservative:
		return times(quota, ceilDiv(behind+1, n+1))
	case c.Whole, behind%n > 0:
		return times(quota, behind/n+1)
	case c.Strict:
		return add(times(quota, behind/n), mulDiv(elapsed, quota, sub))
	default: // quota·elapsed/sub rounded up
		return add(times(quota, behind/n), quota-mulDiv(sub-elapsed, quota, sub))
	}
}

// shortest returns the shortest length of a fixed window, in µs. window is its length in µs
// if it has no calendar.
func shortest(w sluice.FixedWindow, window int64) int64 {
	const hour = int64(time.Hour / time.Microsecond)
	switch w.Calendar {
	case sluice.Day:
		return 17 * hour // clocks in Antarctica once went forward by 7 hours
	case sluice.Week:
		return 6 * 24 * hour
	case sluice.Month:
		return 27 * 24 * hour
	case sluice.Year:
		return 364 * 24 * hour
	default:
		return window
	}
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, n int64) int64 { return mulDiv(a, n, 1) }

// mulDiv returns floor(a·b/c), or the largest int64 if that is less.
func mulDiv(a, b, c int64) int64 {
	if a != 0 && span.LessProduct(math.MaxInt64, c, a, b) {
		return math.MaxInt64
	}
	q, _ := span.MulDiv(a, b, c)
	return q
}
