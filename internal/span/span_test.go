// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package span_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/internal/span"
)

// Bounds of a limit, copied from package sluice.
const (
	maxQuota  = 1<<53 - 1
	maxWindow = 366 * 24 * 3600 * 1_000_000 // µs
	maxRefill = 2 * maxWindow
)

// pair is a rate with its quota and window.
type pair struct {
	span.Rate
	quota, window int64
}

func rates() *rapid.Generator[pair] {
	return rapid.Custom(func(t *rapid.T) pair {
		quota := rapid.OneOf(
			rapid.Int64Range(1, maxQuota),
			rapid.SampledFrom([]int64{1, 3, 7, 65_536, 65_537, 1<<31 - 1, 1 << 31, maxQuota - 1, maxQuota}),
		).Draw(t, "quota")
		window := rapid.OneOf(
			rapid.Int64Range(1, maxWindow),
			rapid.SampledFrom([]int64{1, 1_000_000, 60_000_000, 3_600_000_000, maxWindow - 1, maxWindow}),
		).Draw(t, "window")
		return pair{span.New(quota, window), quota, window}
	})
}

// spans draws any span of the rate up to longest µs.
func spans(r span.Rate, longest int64) *rapid.Generator[span.Span] {
	return rapid.Custom(func(t *rapid.T) span.Span {
		return span.Span{
			Micros: rapid.OneOf(rapid.Int64Range(0, longest), rapid.Just(longest)).Draw(t, "µs"),
			Rem:    rapid.OneOf(rapid.Int64Range(0, r.Den-1), rapid.Just(r.Den-1)).Draw(t, "rem"),
		}
	})
}

// exact returns s as a fraction of µs.
func exact(r span.Rate, s span.Span) *big.Rat {
	whole := new(big.Rat).SetInt64(s.Micros)
	return whole.Add(whole, big.NewRat(s.Rem, r.Den))
}

// lasts returns n·window/quota µs.
func lasts(p pair, n int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(p.window, p.quota), new(big.Rat).SetInt64(n))
}

func wellFormed(t *rapid.T, r span.Rate, s span.Span) {
	t.Helper()
	if s.Rem < 0 || s.Rem >= r.Den {
		t.Fatalf("remainder %d of %d", s.Rem, r.Den)
	}
}

func TestNewReducesTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rates().Draw(t, "rate")
		want := big.NewRat(p.window, p.quota) // math/big keeps it in lowest terms
		if p.Num != want.Num().Int64() || p.Den != want.Denom().Int64() {
			t.Fatalf("%d in %d µs = %d/%d, want %v", p.quota, p.window, p.Num, p.Den, want)
		}
		wellFormed(t, p.Rate, p.One)
		if exact(p.Rate, p.One).Cmp(want) != 0 {
			t.Fatalf("One = %+v, want %v", p.One, want)
		}
	})
}

func TestTimesAndFitsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rates().Draw(t, "rate")
		n := rapid.Int64Range(0, 2*maxQuota).Draw(t, "n")
		most := rapid.OneOf(rapid.Int64Range(0, maxRefill), rapid.Just(int64(math.MaxInt64))).Draw(t, "max")
		if rapid.Bool().Draw(t, "near") { // an n that lasts about as long as max
			near := new(big.Int).Mul(big.NewInt(most), big.NewInt(p.quota))
			near.Div(near, big.NewInt(p.window))
			if near.IsInt64() {
				n = min(near.Int64(), math.MaxInt64-1) + rapid.Int64Range(0, 1).Draw(t, "more")
			}
		}
		want := lasts(p, n)
		fits := want.Cmp(new(big.Rat).SetInt64(most)) <= 0
		if got := p.Fits(n, most); got != fits {
			t.Fatalf("Fits(%d, %d) = %v, but it lasts %v", n, most, got, want)
		}
		if !fits {
			return
		}
		s := p.Times(n)
		wellFormed(t, p.Rate, s)
		if got := exact(p.Rate, s); got.Cmp(want) != 0 {
			t.Fatalf("Times(%d) = %+v, want %v", n, s, want)
		}
		if got := p.Units(s); got != n {
			t.Fatalf("Units(Times(%d)) = %d", n, got)
		}
	})
}

func TestUnitsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rates().Draw(t, "rate")
		s := rapid.OneOf(spans(p.Rate, maxRefill), spans(p.Rate, 1<<32), spans(p.Rate, math.MaxInt64)).Draw(t, "span")
		units := new(big.Rat).Quo(exact(p.Rate, s), big.NewRat(p.Num, p.Den))
		want := new(big.Int).Div(units.Num(), units.Denom())
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := p.Units(s); got != want.Int64() {
			t.Fatalf("Units(%+v) = %d, want %v", s, got, want)
		}
	})
}

// TestUnitsOfWholeUnits: the Span of n units holds n of them, and the next shorter Span one
// less. Here an inverse instead of a division could be wrong.
func TestUnitsOfWholeUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rates().Draw(t, "rate")
		most := min(p.Units(span.Span{Micros: maxRefill}), math.MaxInt64-1)
		n := rapid.OneOf(rapid.Int64Range(1, max(most, 1)), rapid.Int64Range(1, max(min(most, 1<<20), 1))).Draw(t, "n")
		if !p.Fits(n, maxRefill) {
			return
		}
		s := p.Times(n)
		if got := p.Units(s); got != n {
			t.Fatalf("Units(%+v) = %d, want %d", s, got, n)
		}
		least := span.Span{Micros: 1} // the shortest Span
		if p.Den > 1 {
			least = span.Span{Rem: 1}
		}
		if got := p.Units(p.Sub(s, least)); got != n-1 {
			t.Fatalf("Units of the Span before %+v = %d, want %d", s, got, n-1)
		}
	})
}

// TestUnitsAtTheEdgeOfOneWord compares with math/big where the arithmetic
// changes from one word to two.
func TestUnitsAtTheEdgeOfOneWord(t *testing.T) {
	for _, quota := range []int64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<32 + 1} {
		for _, micros := range []int64{1<<32 - 1, 1 << 32, 1<<33 - 1, 1 << 33} {
			r := span.New(quota, 1_000_003) // a prime
			s := span.Span{Micros: micros, Rem: r.Den - 1}
			units := new(big.Rat).Quo(exact(r, s), big.NewRat(r.Num, r.Den))
			want := new(big.Int).Div(units.Num(), units.Denom()).Int64()
			if got := r.Units(s); got != want {
				t.Errorf("%d in 1,000,003 µs: Units(%+v) = %d, want %d", quota, s, got, want)
			}
		}
	}
}

func TestFitsBeyondTwoWords(t *testing.T) {
	hour := span.New(1, 1<<32)
	for _, c := range []struct {
		n    int64
		want bool
	}{
		{1<<31 - 1, true},
		{1 << 31, false}, // 2^63 µs
		{1 << 32, false}, // 2^64 µs: the high word is the denominator
		{math.MaxInt64, false},
	} {
		if got := hour.Fits(c.n, math.MaxInt64); got != c.want {
			t.Errorf("Fits(%d) = %v, want %v", c.n, got, c.want)
		}
	}
}

func TestUnitsOfNegativeSpans(t *testing.T) {
	r := span.New(3, 1_000_000)
	for _, s := range []span.Span{{Micros: -1}, {Micros: -1, Rem: 2}, {Micros: math.MinInt64}} {
		if got := r.Units(s); got != 0 {
			t.Errorf("Units(%+v) = %d, want 0", s, got)
		}
	}
}

func TestAddSubLessCeilAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rates().Draw(t, "rate")
		a := spans(p.Rate, math.MaxInt64/4).Draw(t, "a")
		b := spans(p.Rate, math.MaxInt64/4).Draw(t, "b")
		if rapid.Bool().Draw(t, "same µs") {
			b.Micros = a.Micros
		}
		sum, diff := p.Add(a, b), p.Sub(a, b)
		wellFormed(t, p.Rate, sum)
		wellFormed(t, p.Rate, diff)
		x, y := exact(p.Rate, a), exact(p.Rate, b)
		if got, want := exact(p.Rate, sum), new(big.Rat).Add(x, y); got.Cmp(want) != 0 {
			t.Fatalf("%+v + %+v = %v, want %v", a, b, got, want)
		}
		if got, want := exact(p.Rate, diff), new(big.Rat).Sub(x, y); got.Cmp(want) != 0 {
			t.Fatalf("%+v - %+v = %v, want %v", a, b, got, want)
		}
		if back := p.Add(diff, b); back != a {
			t.Fatalf("%+v - %+v + the same = %+v", a, b, back)
		}
		if got, want := a.Less(b), x.Cmp(y) < 0; got != want {
			t.Fatalf("%+v less than %+v: %v, want %v", a, b, got, want)
		}
		d := exact(p.Rate, diff)
		up := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(d.Num()), d.Denom()))
		if got := diff.Ceil(); got != up.Int64() {
			t.Fatalf("Ceil(%v) = %d, want %v", d, got, up)
		}
	})
}

// TestPacedClientLosesNothing: n steps of one unit are as long as n units, so
// that a client paced at exactly the rate is never early.
func TestPacedClientLosesNothing(t *testing.T) {
	for _, quota := range []int64{3, 7, 65_537, maxQuota} {
		for _, window := range []int64{1_000_000, 60_000_000, maxWindow} {
			r := span.New(quota, window)
			var total span.Span
			const steps = 10_000
			for range steps {
				total = r.Add(total, r.One)
			}
			if want := r.Times(steps); total != want {
				t.Errorf("%d in %d µs: %d steps last %+v, want %+v", quota, window, steps, total, want)
			}
		}
	}
}

func TestMulDivAndLessProductAreExact(t *testing.T) {
	word := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.SampledFrom([]int64{0, 1, 1 << 32, math.MaxInt64}))
	rapid.Check(t, func(t *rapid.T) {
		a, b, c, d := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c"), word.Draw(t, "d")
		ab := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		cd := new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		if got, want := span.LessProduct(a, b, c, d), ab.Cmp(cd) < 0; got != want {
			t.Fatalf("%d·%d < %d·%d: %v, want %v", a, b, c, d, got, want)
		}
		if span.LessProduct(a, b, b, a) {
			t.Fatalf("%d·%d is less than itself", a, b)
		}
		if c == 0 {
			return
		}
		want, rem := new(big.Int).QuoRem(ab, big.NewInt(c), new(big.Int))
		if !want.IsInt64() {
			return
		}
		q, r := span.MulDiv(a, b, c)
		if q != want.Int64() || r != rem.Int64() {
			t.Fatalf("%d·%d/%d = %d rest %d, want %v rest %v", a, b, c, q, r, want, rem)
		}
	})
}

// TestUnitsOfEqualsUnits: a product gives the same result as a division, also at the edges of
// the range.
func TestUnitsOfEqualsUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := span.New(rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, 1<<16)).Draw(t, "quota"), rapid.OneOf(
			rapid.Int64Range(1, 10), rapid.Int64Range(1, 1<<45), rapid.Custom(func(t *rapid.T) int64 { return 1 << rapid.IntRange(0, 45).Draw(t, "power") }),
		).Draw(t, "window"))
		s := span.Span{Rem: rapid.Int64Range(0, r.Den-1).Draw(t, "rem"), Micros: rapid.OneOf(
			rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, 1<<47-1), rapid.Custom(func(t *rapid.T) int64 {
				return max(r.One.Micros*rapid.Int64Range(0, 9).Draw(t, "units")+rapid.Int64Range(-1, 1).Draw(t, "beside"), 0)
			}),
		).Draw(t, "micros")}
		if got, want := r.UnitsOf(s, span.InverseOf(r.Num)), r.Units(s); got != want {
			t.Fatalf("%v of %+v: %d units, want %d", s, r, got, want)
		}
	})
}

// TestUnitsOfAtItsEdges covers the edges at which a quotient changes, up to the largest
// dividend, for divisors near every power of two and for any other.
func TestUnitsOfAtItsEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := int64(1)<<rapid.IntRange(0, 62).Draw(t, "power") + rapid.Int64Range(-2, 2).Draw(t, "beside")
		n := rapid.OneOf(rapid.Just(max(near, 1)), rapid.Int64Range(1, math.MaxInt64-1)).Draw(t, "divisor")
		of := rapid.OneOf(rapid.Just(int64(math.MaxInt64-1)), rapid.Int64Range(0, math.MaxInt64-1)).Draw(t, "of")
		of = max(of-of%n+rapid.Int64Range(-1, 1).Draw(t, "edge"), 0)
		if of == math.MaxInt64 {
			of--
		}
		r := span.Rate{Num: n, Den: 1}
		if got, want := r.UnitsOf(span.Span{Micros: of}, span.InverseOf(n)), of/n; got != want {
			t.Fatalf("%d/%d = %d, want %d", of, n, got, want)
		}
	})
}
