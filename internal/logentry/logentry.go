// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package logentry is how a log writes units spent at one instant: one word, the
// instant in the upper bits and the units in those below, or two, the second holding
// the units where those are more than fit. Bit 0 reports a second word. Of units that
// were denied, one is a word without units, and more are always two words, of which
// the second has its highest bit set.
package logentry

import "math/bits"

// Format is how many bits of a word are an instant's, which are its lowest. Up to
// narrow, words have 56 bits, else 64.
type Format uint

const (
	// Whole is the format of a log: 52 bits hold any instant, and leave 11 for units.
	Whole  Format = 52
	narrow Format = 40
)

// Denied is set in a second word if the units were denied.
const Denied = 1 << 63

// maxWait is how long a reservation waits at most, in µs.
const maxWait = 3600 * 1000 * 1000

// Of returns the format of a log or histogram with a window of so many µs. A histogram
// has few entries of many units, and so needs more bits for these: all its entries were
// spent in a window that ends with the newest, or within the longest wait before that,
// so the lowest bits of an instant tell which it is.
func Of(histogram bool, window int64) Format {
	if !histogram {
		return Whole
	}
	return Format(bits.Len64(uint64(max(window, maxWait) - 1)))
}

// Bytes returns how many bytes a word has.
func (f Format) Bytes() int {
	if f <= narrow {
		return 7
	}
	return 8
}

// Low returns how many bits of a word are below the instant: those of the units, and
// bit 0.
func (f Format) Low() uint { return (uint(8*f.Bytes()) - uint(f)) & 63 }

// Many stands in the place of units that are in a second word.
func (f Format) Many() uint64 { return 1<<(f.Low()-1) - 1 }

func (f Format) mask() uint64 { return 1<<(f&63) - 1 }

// Pack returns the words of an entry, the second 0 if there is none.
func (f Format) Pack(at, units int64, denied bool) (first, second uint64) {
	word, many := uint64(at)&f.mask()<<f.Low(), f.Many()
	switch {
	case denied && units == 1:
		return word, 0
	case denied:
		return word | many<<1, Denied | uint64(units)<<1 | 1
	case uint64(units) < many:
		return word | uint64(units)<<1, 0
	}
	return word | many<<1, uint64(units)<<1 | 1
}

// At returns the instant of an entry's first word, given one that is not before it.
func (f Format) At(word uint64, newest int64) int64 {
	return newest - int64((uint64(newest)-word>>f.Low())&f.mask())
}

// Append appends an entry to the words of a ring.
func (f Format) Append(words []uint64, at, units int64, denied bool) []uint64 {
	first, second := f.Pack(at, units, denied)
	if words = append(words, first); second != 0 {
		words = append(words, second)
	}
	return words
}
