// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import "math/bits"

// find returns the slot of id, idle or not, or the complement of the slot where it belongs.
func (t *table) find(id uint64) int {
	if t.n == 0 {
		return ^0
	}
	i := t.home(id)
	for away := 0; ; away++ {
		switch other := t.slots[i*t.stride]; {
		case other == id:
			return i
		case other == 0 || away > 0 && cyclic(i-t.home(other), t.n) < away:
			return ^i
		}
		i = after(i, t.n)
	}
}

// freeSlot returns the slot where id belongs, which must not be in the table.
func (t *table) freeSlot(id uint64) int {
	i := t.home(id)
	for away := 0; ; away++ {
		if other := t.slots[i*t.stride]; other == 0 || cyclic(i-t.home(other), t.n) < away {
			return i
		}
		i = after(i, t.n)
	}
}

// end returns the first slot from i on that is empty or idle at now.
func (t *table) end(i int, now int64) int {
	now -= t.epoch
	at := i * t.stride
	for t.slots[at] != 0 && int64(t.slots[at+1]>>lowBits) > now {
		i++
		if at += t.stride; i == t.n {
			i, at = 0, 0
		}
	}
	return i
}

// shift moves the states of slot i and after by one slot, up to slot end, whose state it
// overwrites.
func (t *table) shift(i, end int) {
	k := t.stride
	if end < i {
		copy(t.slots[k:(end+1)*k], t.slots[:end*k])
		copy(t.slots[:k], t.slots[(t.n-1)*k:])
		end = t.n - 1
	}
	copy(t.slots[(i+1)*k:(end+1)*k], t.slots[i*k:end*k])
}

// remove empties slot i and moves back the states that its state had displaced.
func (t *table) remove(i int) {
	k := t.stride
	for j := after(i, t.n); ; j = after(j, t.n) {
		if id := t.slots[j*k]; id == 0 || t.home(id) == j {
			break
		}
		copy(t.slots[i*k:i*k+k], t.slots[j*k:j*k+k])
		i = j
	}
	clear(t.slots[i*k : i*k+k])
	t.used--
}

func cyclic(d, n int) int {
	if d < 0 {
		return d + n
	}
	return d
}

// after returns the slot after i of n.
func after(i, n int) int {
	if i++; i == n {
		return 0
	}
	return i
}

// homeOf returns the slot of n at which a search for id starts. It leaves out the
// shard's bits, which are the same in a whole table.
func homeOf(id uint64, n int) int {
	hi, _ := bits.Mul64(id<<shardBits, uint64(n))
	return int(hi)
}
