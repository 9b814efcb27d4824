// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

// mostEntries is how many instants a window keeps for a key. Beyond it neighbours are joined:
// the sum is then a lower bound.
const mostEntries = 1 << 16

// window is the units that one key was admitted in (t-length, t].
type window struct {
	entries []entry
	head    int // index of the oldest that counts
	sum     int64
	joined  bool // entries were joined
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
		w.join()
	}
	w.entries = append(w.entries, entry{t, units})
	return w.sum
}

// join makes one entry of each two, at the instant of the first.
func (w *window) join() {
	live := w.entries[w.head:]
	half := live[:0]
	for i := 0; i+1 < len(live); i += 2 {
		half = append(half, entry{live[i].at, live[i].units + live[i+1].units})
	}
	if len(live)%2 == 1 {
		half = append(half, live[len(live)-1])
	}
	w.entries, w.head, w.joined = half, 0, true
}
