// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package logentry is how a log writes units spent at one instant: one word, the
// instant in the upper 52 bits and the units in 11 below, or two, the second holding
// the units where those are more than fit. Bit 0 reports a second word. Of units that
// were denied, one is a word without units, and more are always two words, of which
// the second has its highest bit set.
package logentry

const (
	// Many stands in the place of units that are in a second word.
	Many = 1<<11 - 1
	// Denied is set in a second word if the units were denied.
	Denied = 1 << 63
)

// Pack returns the words of an entry, the second 0 if there is none.
func Pack(at, units int64, denied bool) (first, second uint64) {
	word := uint64(at) << 12
	switch {
	case denied && units == 1:
		return word, 0
	case denied:
		return word | Many<<1, Denied | uint64(units)<<1 | 1
	case units < Many:
		return word | uint64(units)<<1, 0
	}
	return word | Many<<1, uint64(units)<<1 | 1
}

// Append appends an entry to the words of a ring.
func Append(words []uint64, at, units int64, denied bool) []uint64 {
	first, second := Pack(at, units, denied)
	if words = append(words, first); second != 0 {
		words = append(words, second)
	}
	return words
}
