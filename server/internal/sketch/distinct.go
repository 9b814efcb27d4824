// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sketch estimates the number of different recent keys in little memory.
package sketch

import "github.com/axiomhq/hyperloglog"

// distinct counts different hashes: exactly as a list while they are few, then as a
// HyperLogLog of 2^precision registers of a byte. It is not safe for concurrent use.
type distinct struct {
	sketch *hyperloglog.Sketch
	look   int // hashes until the next check of the list's length; 0: no list any more
}

func newDistinct(precision int) distinct {
	return distinct{sketch: newSketch(precision, true), look: few(precision)}
}

// few is the longest list of hashes. A longer one would soon take more memory than registers.
func few(precision int) int { return 1 << precision / 8 }

func newSketch(precision int, sparse bool) *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(uint8(precision), sparse)
	must(err)
	return s
}

// must panics for errors that cannot occur: precisions are [Fine] or [Coarse], and merged
// sketches have the same one.
func must(err error) {
	if err != nil {
		panic("sketch: " + err.Error()) //nolint:forbidigo // see above
	}
}

// add counts a hash.
func (d *distinct) add(precision int, hash uint64) {
	d.sketch.InsertHash(hash)
	if d.look == 0 {
		return
	}
	if d.look--; d.look == 0 {
		d.settle(precision)
	}
}

// settle replaces a list that has grown too long by registers.
func (d *distinct) settle(precision int) {
	if d.look = few(precision) - int(d.estimate()); d.look > 0 {
		return
	}
	registers := newSketch(precision, false)
	must(registers.Merge(d.sketch))
	*d = distinct{sketch: registers}
}

// merge adds the hashes of another.
func (d *distinct) merge(precision int, o *distinct) {
	must(d.sketch.Merge(o.sketch))
	if d.look == 0 {
		return
	}
	if d.settle(precision); d.look > 0 {
		d.sketch = d.sketch.Clone() // frees the memory used for merging
	}
}

// estimate returns the approximate number of different hashes.
func (d *distinct) estimate() int64 {
	const most = 1 << 53 // with all registers at their maximum
	return int64(min(d.sketch.Estimate(), most))
}

// bytes returns the approximate memory of d.
func (d *distinct) bytes(precision int) int {
	if d.look == 0 {
		return 1<<precision + 64
	}
	return 150 + 4*(few(precision)-d.look)
}
