// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package span does the exact arithmetic of a rate: how long a number of
// units lasts, and how many units fit in a length of time, without rounding.
//
// A bucket that gives 3 units a second spends 333,333 1/3 µs on each. A Span keeps the third
// as an integer over the rate's denominator, so that a client paced at exactly the rate is
// never denied, after any number of steps.
package span

import (
	"math"
	"math/bits"
)

// Span is an exact length of time: Micros + Rem/Den µs, where Den is the
// denominator of the Rate it came from and 0 ≤ Rem < Den. Spans of different
// rates cannot be compared.
type Span struct{ Micros, Rem int64 }

// Rate is Window µs for Quota units, in lowest terms. Den is the quota part:
// the denominator of every Span of this rate.
type Rate struct {
	Num, Den int64 // one unit lasts Num/Den µs
	One      Span  // the same, as a Span
}

// New returns the rate of quota units in window µs. Both must be positive.
func New(quota, window int64) Rate {
	g := gcd(quota, window)
	r := Rate{Num: window / g, Den: quota / g}
	r.One = Span{Micros: r.Num / r.Den, Rem: r.Num % r.Den}
	return r
}

// Times returns how long n units last. n must not be negative, and the result
// must fit 63 bits, as [Rate.Fits] reports.
func (r Rate) Times(n int64) Span {
	if n == 1 {
		return r.One
	}
	hi, lo := bits.Mul64(uint64(n), uint64(r.Num))
	q, rem := bits.Div64(hi, lo, uint64(r.Den))
	return Span{Micros: int64(q), Rem: int64(rem)}
}

// Fits reports whether n units last at most micros µs, without overflowing.
func (r Rate) Fits(n, micros int64) bool {
	hi, lo := bits.Mul64(uint64(n), uint64(r.Num))
	if hi >= uint64(r.Den) {
		return false
	}
	q, rem := bits.Div64(hi, lo, uint64(r.Den))
	return q < uint64(micros) || q == uint64(micros) && rem == 0
}

// Units returns how many whole units s lasts for, at most 1<<63 - 1. A
// negative s has none.
func (r Rate) Units(s Span) int64 {
	if s.Micros < 0 {
		return 0
	}
	// Within an hour or so and a quota below 2^31 the product fits one word.
	if s.Micros < 1<<32 && r.Den < 1<<31 {
		return (s.Micros*r.Den + s.Rem) / r.Num
	}
	hi, lo := bits.Mul64(uint64(s.Micros), uint64(r.Den))
	lo, carry := bits.Add64(lo, uint64(s.Rem), 0)
	hi += carry
	if hi >= uint64(r.Num) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Num))
	return int64(min(q, math.MaxInt64))
}

// Inverse stands for a division by a positive number: see [Rate.UnitsOf].
type Inverse struct {
	factor uint64
	shift  uint8
}

// InverseOf returns the Inverse of n.
func InverseOf(n int64) Inverse {
	// With the largest factor below 2^(64+shift)/n that a word holds, (m+1)·factor is
	// less than 2^(64+shift)·(m+1)/n, by no more than 2^(64+shift)/n where m < 2^63.
	shift := bits.Len64(uint64(n)) - 1
	factor, _ := bits.Div64(1<<shift-1, math.MaxUint64, uint64(n))
	return Inverse{factor, uint8(shift)}
}

// Divide returns n divided by the number, rounded down. n must not be negative, and be less
// than 2^63 - 1.
func (i Inverse) Divide(n int64) int64 {
	q, _ := bits.Mul64(uint64(n)+1, i.factor)
	return int64(q >> (i.shift & 63))
}

// UnitsOf is [Rate.Units] by a product instead of a division; inverse is the Inverse of Num. s
// must not be negative, and Micros·Den + Rem be less than 2^63 - 1.
func (r Rate) UnitsOf(s Span, inverse Inverse) int64 {
	q, _ := bits.Mul64(uint64(s.Micros)*uint64(r.Den)+uint64(s.Rem)+1, inverse.factor)
	return int64(q >> (inverse.shift & 63))
}

// Add returns a + b.
func (r Rate) Add(a, b Span) Span {
	c := Span{Micros: a.Micros + b.Micros, Rem: a.Rem + b.Rem}
	if c.Rem >= r.Den {
		c.Micros++
		c.Rem -= r.Den
	}
	return c
}

// Sub returns a - b, which may be negative in Micros.
func (r Rate) Sub(a, b Span) Span {
	c := Span{Micros: a.Micros - b.Micros, Rem: a.Rem - b.Rem}
	if c.Rem < 0 {
		c.Micros--
		c.Rem += r.Den
	}
	return c
}

// Less reports whether s is shorter than t.
func (s Span) Less(t Span) bool {
	return s.Micros < t.Micros || s.Micros == t.Micros && s.Rem < t.Rem
}

// Ceil returns s in whole µs, rounded up.
func (s Span) Ceil() int64 {
	if s.Rem > 0 {
		return s.Micros + 1
	}
	return s.Micros
}

// MulDiv returns floor(a·b/c) and the remainder. a and b must not be negative,
// c must be positive and the quotient must fit 63 bits.
func MulDiv(a, b, c int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, rem := bits.Div64(hi, lo, uint64(c))
	return int64(q), int64(rem)
}

// LessProduct reports whether a·b < c·d. None may be negative.
func LessProduct(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 < h2 || h1 == h2 && l1 < l2
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// longest is the longest Span that Convert returns: no limit lasts as long.
const longest = 1 << 60

// Convert returns the time that units last at rate to if they last s at rate r, rounded up to
// the next Span of that rate, and at most 2^60 µs. s must not be negative.
func (r Rate) Convert(s Span, to Rate) Span {
	// s is (Micros·Den + Rem) / Num units: some whole ones and rest/Num.
	hi, lo := bits.Mul64(uint64(s.Micros), uint64(r.Den))
	lo, carry := bits.Add64(lo, uint64(s.Rem), 0)
	hi += carry
	if hi >= uint64(r.Num) {
		return Span{Micros: longest}
	}
	units, rest := bits.Div64(hi, lo, uint64(r.Num))
	part := mulDivUp(rest, uint64(to.Num), uint64(r.Num)) // at most to.Num
	hi, lo = bits.Mul64(units, uint64(to.Num))
	lo, carry = bits.Add64(lo, part, 0)
	hi += carry
	if hi >= uint64(to.Den) {
		return Span{Micros: longest}
	}
	q, rem := bits.Div64(hi, lo, uint64(to.Den))
	if q >= longest {
		return Span{Micros: longest}
	}
	return Span{Micros: int64(q), Rem: int64(rem)}
}

// mulDivUp returns a·b/c rounded up, for a < c.
func mulDivUp(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, rem := bits.Div64(hi, lo, c)
	if rem > 0 {
		q++
	}
	return q
}
