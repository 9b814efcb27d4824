// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package logentry is the format in which a log stores the units spent at one instant. An
// entry is one word, with the instant in the upper bits and the units below, or two words, the
// second with the units, if they do not fit into the first. Bit 0 is set if there is a second
// word. One denied unit is a word without units; several denied units are always two words,
// the second with its highest bit set.
package logentry

import "math/bits"

// Format is the number of low bits of an instant that a word holds. Up to narrow, words
// have 56 bits, otherwise 64.
type Format uint

const (
	// Whole is the format of a log: 52 bits hold any instant, and leave 11 for units.
	Whole  Format = 52
	narrow Format = 40
)

// Denied is set in a second word if the units were denied.
const Denied = 1 << 63

// maxWait is the longest wait of a reservation, in µs.
const maxWait = 3600 * 1000 * 1000

// Of returns the format of a log or histogram with a window in µs. A histogram has few entries
// of many units, and so needs more bits for units. All its entries lie in a window that ends
// with the newest, or within the longest wait before that, so the lowest bits of an instant
// are enough.
func Of(histogram bool, window int64) Format {
	if !histogram {
		return Whole
	}
	return Format(bits.Len64(uint64(max(window, maxWait) - 1)))
}

// Bytes returns the number of bytes of a word.
func (f Format) Bytes() int {
	if f <= narrow {
		return 7
	}
	return 8
}

// Low returns the number of bits of a word below the instant: the bits of the units, and bit
// 0.
func (f Format) Low() uint { return (uint(8*f.Bytes()) - uint(f)) & 63 }

// Many stands in place of units that are in a second word.
func (f Format) Many() uint64 { return 1<<(f.Low()-1) - 1 }

func (f Format) mask() uint64 { return 1<<(f&63) - 1 }

// Pack returns the words of an entry. The second is 0 if one word is enough.
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
