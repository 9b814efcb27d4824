// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math/bits"
	"slices"

	"github.com/sluicegate/sluice/algo"
)

// table keeps the states of one form of one shard, but for those of one word: open addressing with linear
// probing in one block without pointers, so that a state costs its words and
// nothing else, and the collector has nothing to follow. A slot holds
//
//	identity, idle<<16 | low, …
//
// where idle is the state's Idle in µs since the table's epoch, and low its
// flags. What follows is the form's: see read and write. A slot whose Idle has
// come equals never-seen: a new state takes it like an empty one.
type table struct {
	form   algo.Form
	stride int   // words per slot
	n      int   // slots
	used   int   // slots that hold a state, idle ones included
	limit  int   // used at which the table must be rebuilt
	cap    int   // most states it is asked to hold
	epoch  int64 // µs since 1970
	slots  []uint64
}

const (
	idleBits  = 48
	idleMax   = 1<<idleBits - 1
	lowBits   = 64 - idleBits
	reserved  = 1               // flag in low
	lowClass  = 1               // where in low the class is
	epochLead = 24 * 3600 * 1e6 // µs by which a clock may step back before a rebuild is due
)

var strides = [...]int{algo.FormPair: 3, algo.FormDuo: 3, algo.FormTrio: 4, algo.FormRing: 6}

// The words of a slot of FormRing behind identity, idle, A and B.
const (
	ringShape = 4 // capacity, head, len: 20 bits each
	ringBlock = 5 // where in the slab
)

// density returns how many 64ths of the slots may be used, and by what part of
// its states a table grows: so that all stay below 40 bytes per state.
func (t *table) density() (load, part int) {
	if t.stride == 3 {
		return 56, 5
	}
	return 59, 16
}

func (t *table) home(id uint64) int {
	// The shard's bits are the same in all of the table: leave them out.
	hi, _ := bits.Mul64(id<<shardBits, uint64(t.n))
	return int(hi)
}

func (t *table) id(i int) uint64 { return t.slots[i*t.stride] }

func (t *table) idle(i int) int64 {
	return t.epoch + int64(t.slots[i*t.stride+1]>>lowBits)
}

// find returns the slot of id, dead or alive, or -1.
func (t *table) find(id uint64) int {
	if t.n == 0 {
		return -1
	}
	for i := t.home(id); ; {
		switch t.slots[i*t.stride] {
		case id:
			return i
		case 0:
			return -1
		}
		if i++; i == t.n {
			i = 0
		}
	}
}

// remove empties slot i, moving back those that were pushed on by it.
func (t *table) remove(i int) {
	k := t.stride
	for j := i; ; {
		if j++; j == t.n {
			j = 0
		}
		id := t.slots[j*k]
		if id == 0 {
			break
		}
		if cyclic(j-t.home(id), t.n) >= cyclic(j-i, t.n) {
			copy(t.slots[i*k:i*k+k], t.slots[j*k:j*k+k])
			i = j
		}
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

// inRange reports whether the epoch can express idle.
func (t *table) inRange(idle int64) bool {
	return t.n > 0 && idle > t.epoch && idle-t.epoch <= idleMax
}

// packIdle returns the second word of a slot. An instant that no epoch can
// express together with now lies more than 8.9 years ahead; it saturates.
func packIdle(idle, epoch int64, low uint64) uint64 {
	return uint64(min(max(idle-epoch, 1), idleMax))<<lowBits | low
}

// read unpacks slot i but for a ring, which is in the slab.
func (t *table) read(i int, s *algo.State) {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	s.Idle = t.epoch + int64(w[1]>>lowBits)
	s.Reserved = w[1]&reserved != 0
	switch t.form {
	case algo.FormPair:
		s.A = int64(w[2])
	case algo.FormDuo:
		s.A, s.B = int64(w[2]>>32), int64(w[2]&(1<<32-1))
	default:
		s.A, s.B = int64(w[2]), int64(w[3])
	}
	if t.form == algo.FormRing {
		s.Head, s.Len = int(w[ringShape]>>20&(1<<20-1)), int(w[ringShape]&(1<<20-1))
	}
}

// write packs s into slot i but for a ring's words and their place.
func (t *table) write(i int, s *algo.State, c class) {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	low := uint64(c) << lowClass
	if s.Reserved {
		low |= reserved
	}
	w[1] = packIdle(s.Idle, t.epoch, low)
	switch t.form {
	case algo.FormPair:
		w[2] = uint64(s.A)
	case algo.FormDuo:
		w[2] = uint64(s.A)<<32 | uint64(s.B)
	default:
		w[2], w[3] = uint64(s.A), uint64(s.B)
	}
	if t.form == algo.FormRing {
		w[ringShape] = uint64(len(s.Ring))<<40 | uint64(s.Head)<<20 | uint64(s.Len)
	}
}

// rebuild makes a new block for the states that live at now, with room for a
// share more.
func (t *table) rebuild(now int64) {
	live := 0
	for i := range t.n {
		if t.id(i) != 0 && t.idle(i) > now {
			live++
		}
	}
	load, part := t.density()
	want := live + live/part + 8
	if live < 64 {
		want = 2*live + 8
	}
	want = min(want, max(live, t.cap)+1)
	old := *t
	// Grow rounds up to what the allocator would hand out anyway.
	t.slots = slices.Grow([]uint64(nil), (want*64/load+1)*t.stride)
	t.slots = t.slots[:cap(t.slots)]
	t.n = len(t.slots) / t.stride
	t.limit = t.n * load / 64
	t.used = live
	t.epoch = max(now-epochLead, 0)
	for i := range old.n {
		if old.id(i) != 0 && old.idle(i) > now {
			t.adopt(&old, i)
		}
	}
}

// adopt copies slot i of an older block.
func (t *table) adopt(old *table, i int) {
	w := old.slots[i*t.stride : (i+1)*t.stride]
	j := t.home(w[0])
	for t.id(j) != 0 {
		if j++; j == t.n {
			j = 0
		}
	}
	to := t.slots[j*t.stride : (j+1)*t.stride]
	copy(to, w)
	to[1] = packIdle(old.idle(i), t.epoch, w[1]&(1<<lowBits-1))
}
