// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"math"
	"math/bits"
)

// never is the instant at which a cost fits that is larger than the limit.
const never = math.MaxInt64

// plenty is more than any balance; larger balances count as plenty.
const plenty = 1 << 61

// between is the least and the most value that the documents allow.
type between struct{ lo, hi int64 }

func exactly(n int64) between { return between{n, n} }

func (s between) has(n int64) bool { return s.lo <= n && n <= s.hi }

// and returns the bounds of the larger of two values.
func (s between) and(o between) between { return between{max(s.lo, o.lo), max(s.hi, o.hi)} }

// atMost returns the bounds of the smaller of two values.
func (s between) atMost(o between) between { return between{min(s.lo, o.lo), min(s.hi, o.hi)} }

// mulDiv returns a·b/c rounded down, and whether that is inexact, for values that are not
// negative. The result is at most plenty.
func mulDiv(a, b, c int64) (q int64, cut bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return plenty, false
	}
	n, rem := bits.Div64(hi, lo, uint64(c))
	if n > plenty {
		return plenty, false
	}
	return int64(n), rem > 0
}

func mulDivUp(a, b, c int64) int64 {
	q, cut := mulDiv(a, b, c)
	if cut {
		q++
	}
	return q
}

func ceilDiv(a, b int64) int64 { return mulDivUp(max(a, 0), 1, b) }

// drained returns the 1/den units that v's rate drains in dt µs, rounded down and up.
func (v *version) drained(dt int64) (down, up int64) {
	den := v.series.den
	if dt <= 0 {
		return 0, 0
	}
	if m := v.quota * (den / v.window); den%v.window == 0 {
		if dt > plenty/m {
			return plenty, plenty
		}
		return dt * m, dt * m
	}
	perWindow, _ := mulDiv(v.quota, den, 1)
	q, cut := mulDiv(dt, perWindow, v.window)
	if cut {
		return q, q + 1
	}
	return q, q
}

// drains returns the whole µs after which v's rate has certainly drained amount.
func (v *version) drains(amount int64) int64 {
	den := v.series.den
	if amount <= 0 {
		return 0
	}
	if m := v.quota * (den / v.window); den%v.window == 0 {
		return (amount-1)/m + 1
	}
	perWindow, _ := mulDiv(v.quota, den, 1)
	return mulDivUp(amount, v.window, perWindow)
}

// faster reports whether v drains faster than o.
func (v *version) faster(o *version) bool {
	h1, l1 := bits.Mul64(uint64(v.quota), uint64(o.window))
	h2, l2 := bits.Mul64(uint64(o.quota), uint64(v.window))
	return h1 > h2 || h1 == h2 && l1 > l2
}
