// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

// mostEntries is how many instants a window keeps for a key. Units beyond them count at the last
// one: the sum is then a lower bound.
const mostEntries = 1 << 16

// window is the units that one key was admitted in (t-length, t].
type window struct {
	entries []entry
	head    int // index of the oldest that counts
	sum     int64
	joined  bool // units count at an instant before their own
}

type entry struct{ at, units int64 }

// advance drops what is no longer in the window of length µs that ends at t.
func (w *window) advance(t, length int64) {
	for w.head < len(w.entries) && w.entries[w.head].at <= t-length {
		w.sum -= w.entries[w.head].units
		w.head++
	}
	if w.head == len(w.entries) {
		w.entries, w.head = w.entries[:0], 0
	}
}

// add counts units at t, which is not before the last one, and returns the sum.
func (w *window) add(t, units, length int64) int64 {
	w.advance(t, length)
	w.sum += units
	n := len(w.entries)
	switch {
	case n > w.head && w.entries[n-1].at >= t:
		w.entries[n-1].units += units
		return w.sum
	case n == cap(w.entries) && w.head > n/2:
		w.entries, w.head = w.entries[:copy(w.entries, w.entries[w.head:])], 0
	case n-w.head >= mostEntries:
		w.entries[n-1].units, w.joined = w.entries[n-1].units+units, true
		return w.sum
	}
	w.entries = append(w.entries, entry{t, units})
	return w.sum
}
