// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/internal/span"
)

// Bound returns the most units that l admits in any span (t, t+d] of time, its
// Debt and Credit included, whatever the traffic: it is never exceeded, and the worst
// traffic comes within one unit of it. What is added within the span comes on top,
// and what was added before it while units were reserved that are due within. For a leaky bucket it counts units as
// they are admitted; see [Output]. A limit that is not valid, or a span that is
// not positive, has a bound of 0. Bounds beyond 2^63−1 are that, and that of a block,
// which says how many denials it takes: see [Denials].
func Bound(l sluice.Limit, d time.Duration) int64 {
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
		// A span of one instant meets one window, of one µs more two.
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
// worst span starts with the last µs of a sub-window that is full; what it
// meets of the last one is elapsed. Of any n sub-windows in a row at most quota
// units are admitted, and of n+1 too if the oldest counts whole. Else it counts
// by the part that is in sight, and the last may admit the rest again: rounded
// up, as the part in sight is rounded down, unless the limit is strict. Where
// whole sub-windows count, of n in a row only those quota units are admitted,
// and the next may admit them all again.
//
// A Debt comes on top, once: what a charge has counted is in the sub-windows that are
// whole in sight, with no more than quota and Debt, or stays in those before, in as many
// of which in a row no more than quota stays. Of the oldest in sight, with quota or less,
// the part that is out of sight comes back. Units never move to an earlier sub-window.
func counterBound(c sluice.SlidingCounter, quota, sub, length int64) int64 {
	if length < 2 {
		return quota
	}
	n := int64(c.SubWindows)
	behind, elapsed := (length-2)/sub+1, (length-2)%sub // sub-windows behind the first
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

// Output returns the most units that a leaky bucket which queues lets go on in
// any span (t, t+d], and how long it delays one at most.
func Output(l sluice.Limit, d time.Duration) (units int64, wait time.Duration) {
	l = l.Filled()
	b, ok := l.Algorithm.(sluice.LeakyBucket)
	if !ok || d < time.Microsecond || l.Validate() != nil {
		return 0, 0
	}
	r := span.New(l.Quota, l.Window.Microseconds())
	return add(b.DelayAfter, mulDiv(d.Microseconds(), l.Quota, l.Window.Microseconds())),
		micros(r.Times(l.Burst - b.DelayAfter).Ceil())
}

// Wait returns how long the next take waits at most for the debt of a take, where
// the limit lets takes owe: see [sluice.TokenBucket]. It is 0 where it does not.
func Wait(l sluice.Limit) time.Duration {
	b, _ := l.Algorithm.(sluice.TokenBucket)
	if !b.NextWaits || l.Validate() != nil {
		return 0
	}
	if b.Refill != sluice.Continuous {
		return time.Duration(ceilDiv(l.Debt, l.Quota)) * l.Window
	}
	return micros(span.New(l.Quota, l.Window.Microseconds()).Times(l.Debt).Ceil())
}

// shortest returns the shortest a fixed window can be, in µs as is window.
func shortest(w sluice.FixedWindow, window int64) int64 {
	const hour = int64(time.Hour / time.Microsecond)
	switch w.Calendar {
	case sluice.Day:
		return 17 * hour // clocks went forward by 7 hours in Antarctica once
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

// mulDiv returns floor(a·b/c), or the largest int64 if it is more.
func mulDiv(a, b, c int64) int64 {
	if a != 0 && span.LessProduct(math.MaxInt64, c, a, b) {
		return math.MaxInt64
	}
	q, _ := span.MulDiv(a, b, c)
	return q
}

// Worst says in words what l admits at worst: "at most 200 requests in any
// minute".
func Worst(l sluice.Limit) string {
	l = l.Filled()
	if block, ok := l.Algorithm.(sluice.Block); ok {
		return worstBlock(l, block)
	}
	token, _ := l.Algorithm.(sluice.TokenBucket)
	window, _ := l.Algorithm.(sluice.FixedWindow)
	var b strings.Builder
	if window.Calendar != sluice.NoCalendar {
		edge := "midnight"
		if window.From != (sluice.Moment{}) {
			edge = window.From.String()
		}
		fmt.Fprintf(&b, "at most %s in any calendar %v (%s), and %s around %s when one follows another",
			amount.Of(l.Quota+l.Debt, l.Unit == sluice.Bytes), window.Calendar, window.Zone, amount.Of(times(l.Quota+l.Debt, 2), l.Unit == sluice.Bytes), edge)
	} else {
		fmt.Fprintf(&b, "at most %s in any %s", amount.Of(Bound(l, l.Window), l.Unit == sluice.Bytes), amount.Length(l.Window))
	}
	if l.Queues() {
		units, wait := Output(l, l.Window)
		fmt.Fprintf(&b, ", of which at most %s go on, the others delayed by up to %v", amount.Of(units, l.Unit == sluice.Bytes), wait)
	}
	if window.InitialDeficit > 0 {
		fmt.Fprintf(&b, ", %s less in the first", amount.Of(window.InitialDeficit, l.Unit == sluice.Bytes))
	}
	if l.Debt > 0 {
		fmt.Fprintf(&b, ", a debt of %s included", amount.Of(l.Debt, l.Unit == sluice.Bytes))
	}
	if token.Credit > 0 {
		fmt.Fprintf(&b, ", credit of %s included, and what is added meanwhile on top", amount.Of(token.Credit, l.Unit == sluice.Bytes))
	}
	if token.NextWaits {
		fmt.Fprintf(&b, ", for which the next waits up to %v", Wait(l))
	}
	if late := Late(l); late > 0 {
		fmt.Fprintf(&b, "; those of a cold key come up to %v later", late)
	}
	return b.String()
}
