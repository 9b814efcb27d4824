// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sketch estimates how many different keys there were of late, in little
// memory, and without a lock for those who count.
package sketch

import (
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	registerBits = 5
	perWord      = 64 / registerBits
	most         = 1<<registerBits - 1 // of a register
)

// distinct is a HyperLogLog: 2^precision registers, each the most leading zeros,
// and one, that a hash has had of those that fell to it. It is safe for concurrent
// use. See Flajolet, Fusy, Gandouet and Meunier, "HyperLogLog", 2007.
type distinct []atomic.Uint64

func newDistinct(precision int) distinct {
	return make(distinct, (1<<precision+perWord-1)/perWord)
}

// add counts a hash. Mostly it writes nothing: the register has as much already.
func (d distinct) add(precision int, hash uint64) {
	i := hash >> (64 - precision)
	rank := min(uint64(bits.LeadingZeros64(hash<<precision))+1, most)
	word, shift := &d[i/perWord], i%perWord*registerBits
	for {
		old := word.Load()
		if old>>shift&most >= rank || word.CompareAndSwap(old, old&^(most<<shift)|rank<<shift) {
			return
		}
	}
}

func (d distinct) clear() {
	for i := range d {
		d[i].Store(0)
	}
}

// merge adds what another has counted.
func (d distinct) merge(o distinct) {
	for i := range o {
		for {
			old, more := d[i].Load(), o[i].Load()
			if d[i].CompareAndSwap(old, larger(old, more)) {
				break
			}
		}
	}
}

// larger returns the larger of each of the registers of two words.
func larger(a, b uint64) (of uint64) {
	for shift := 0; shift < perWord*registerBits; shift += registerBits {
		of |= max(a>>shift&most, b>>shift&most) << shift
	}
	return of
}

// estimate returns about how many different hashes there were: the estimator of
// Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017,
// which needs no correction for small numbers or large ones.
func (d distinct) estimate(precision int) int64 {
	var count [most + 1]int
	m := 1 << precision
	for i := range m {
		count[d[i/perWord].Load()>>(i%perWord*registerBits)&most]++
	}
	if count[0] == m {
		return 0
	}
	n := float64(m)
	z := n * tau(1-float64(count[most])/n)
	for k := most - 1; k > 0; k-- {
		z = (z + float64(count[k])) / 2
	}
	z += n * sigma(float64(count[0])/n)
	const all = 1 << 53 // where every register has as much as it can
	return int64(min(math.Round(n*n/(2*math.Ln2)/z), all))
}

// sigma returns x + Σ x^(2^k)·2^(k-1), which ends as x is less than 1.
func sigma(x float64) float64 {
	sum, y := x, 1.0
	for before := -1.0; sum != before; y *= 2 {
		before = sum
		x *= x
		sum += x * y
	}
	return sum
}

// tau returns (1 - x - Σ (1 - x^(2^-k))²·2^-k) / 3.
func tau(x float64) float64 {
	if x <= 0 || x >= 1 {
		return 0
	}
	sum, y := 1-x, 1.0
	for before := -1.0; sum != before; {
		before = sum
		x = math.Sqrt(x)
		y /= 2
		sum -= (1 - x) * (1 - x) * y
	}
	return sum / 3
}
