// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sketch estimates how many different keys there were recently, in little
// memory.
package sketch

import "github.com/axiomhq/hyperloglog"

// distinct counts different hashes: exactly while there are few, as a list of them,
// then as a HyperLogLog of 2^precision registers of a byte. It is not safe for
// concurrent use.
type distinct struct {
	sketch *hyperloglog.Sketch
	look   int // at whether it is a list still, after so many hashes; 0: it is none
}

func newDistinct(precision int) distinct {
	return distinct{sketch: newSketch(precision, true), look: few(precision)}
}

// few is how many hashes are kept as a list. Beyond that it would soon take more
// memory than registers.
func few(precision int) int { return 1 << precision / 8 }

func newSketch(precision int, sparse bool) *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(uint8(precision), sparse)
	must(err)
	return s
}

// must is for errors that cannot be: precisions are [Fine] or [Coarse], and sketches
// that are merged are of one.
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

// settle has registers take the place of a list that has grown too long.
func (d *distinct) settle(precision int) {
	if d.look = few(precision) - int(d.estimate()); d.look > 0 {
		return
	}
	registers := newSketch(precision, false)
	must(registers.Merge(d.sketch))
	*d = distinct{sketch: registers}
}

// merge adds what another has counted.
func (d *distinct) merge(precision int, o *distinct) {
	must(d.sketch.Merge(o.sketch))
	if d.look == 0 {
		return
	}
	if d.settle(precision); d.look > 0 {
		d.sketch = d.sketch.Clone() // without the room that merging takes
	}
}

// estimate returns about how many different hashes there were.
func (d *distinct) estimate() int64 {
	const most = 1 << 53 // where registers have as much as they can
	return int64(min(d.sketch.Estimate(), most))
}

// bytes returns how much memory d takes, about.
func (d *distinct) bytes(precision int) int {
	if d.look == 0 {
		return 1<<precision + 64
	}
	return 150 + 4*(few(precision)-d.look)
}
