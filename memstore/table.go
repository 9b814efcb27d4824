// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// table keeps the states of one size of one shard, but for those of one word: open
// addressing with linear probing in one block without pointers. So a state takes no
// memory but its words, and the garbage collector does not scan them. States are in the
// order of their homes (Robin Hood hashing), so that a search for a missing state is short
// even in an almost full table. A slot holds
//
//	identity, idle<<18 | flags, A<<10 | version, B, …
//
// where idle is the state's Idle in µs since the table's epoch. In a slot of sizePair B
// is above A in the third word: see read and write. A slot whose state is idle counts as
// empty.
type table struct {
	size   stateSize
	stride int   // words per slot
	n      int   // slots
	used   int   // slots that hold a state, idle ones included
	limit  int   // value of used at which the table must be rebuilt
	cap    int   // maximum number of states before the shard is divided
	epoch  int64 // µs since 1970
	slots  []uint64
}

// The parts of the second word of a slot. 46 bits hold the longest life of a state, and
// 80 days for which the epoch can stay.
const (
	idleBits  = 46
	idleMax   = 1<<idleBits - 1
	lowBits   = 64 - idleBits
	lowMask   = 1<<lowBits - 1
	reserved  = 1      // flag, also of a bucket that refills in intervals: Last is 1
	credit    = 1      // flag, of a bucket with continuous refill: A is its credit
	lowClass  = 1      // shift of the class
	more      = 1 << 3 // flag: the key has another form, in the slot of the next rank
	plain     = 1 << 4 // flag: a bucket without Since and Last
	lowBy     = 5      // shift of the lower bits of the version's index
	byLow     = lowBits - lowBy
	byHigh    = 8 // bits of the index in the third word
	byBits    = byLow + byHigh
	countBits = 10 // the third word's bits below A
	mostCount = 1<<(64-countBits) - 1
	epochLead = 24 * 3600 * 1e6 // µs by which a clock may step back before a rebuild is due
)

// remLow and remHigh are the numbers of bits for a bucket's remainder, or credit, beside
// Since and Last.
const (
	remLow  = lowBits
	remHigh = lowBits - byHigh
	maxRem  = 1 << (remLow + remHigh)
)

// In the third word of a slot of sizePair, A and B have pairBits each.
const (
	pairBits = (64 - byHigh) / 2
	pairMask = 1<<pairBits - 1
)

var strides = [...]int{sizeFixed: 4, sizeRing: 5, sizePair: 3}

// The words of a slot of sizeRing after identity, idle and A. A bucket with continuous
// refill has no ring but the flag ringless: these words hold Since and Last, and B in place
// of a part of the block.
const (
	ringShape = 3 // capacity, head, len: 20 bits each
	ringBlock = 4 // the block, and B: the mark of a histogram, at most 13/12 of 2^20 words, else 0

	ringless = plain
	lastLow  = 28 // bits of Last in the last word
	maxRingB = 1<<(64-blockBits) - 1
)

// blockOf returns the block that the words of a slot of sizeRing name, and its size: 0 if
// there is none.
func blockOf(w []uint64) (b block, size int) {
	if size = int(w[ringShape] >> 40); size == 0 || w[1]&ringless != 0 {
		return 0, 0
	}
	return block(w[ringBlock] & blockMask), size
}

func setBlock(w []uint64, b block) { w[ringBlock] = w[ringBlock]&^blockMask | uint64(b) }

// loads are the 64ths of the slots that may be used.
var loads = [...]int{sizeFixed: 61, sizeRing: 58, sizePair: 61} // a log has room for more slots beside its ring

// sizeOf returns the size of slot that s, written by v, needs.
func sizeOf(v *version, s *algo.State) stateSize {
	switch {
	case sizeOfForm(v.term) == sizeRing:
		return sizeRing
	case balance(v) && !plainState(s) && (max(v.term.Rate.Den, v.term.Credit) > maxRem || warms(v)):
		return sizeRing
	case !balance(v) && uint64(s.A|s.B) <= pairMask && s.Since == 0:
		return sizePair
	}
	return sizeFixed
}

// warms reports whether states of v are those of a bucket that warms up.
func warms(v *version) bool { return v != nil && v.term.WarmUp > 0 }

// plainState reports whether Idle and A describe s, the state of a bucket: nothing is
// reserved, and only its writer matters.
func plainState(s *algo.State) bool { return s.Since == 0 && s.Last == 0 }

// balance reports whether states of v are those of a bucket with continuous refill.
func balance(v *version) bool {
	return v != nil && v.term.Burst > 0 && v.term.Refill == sluice.Continuous
}

func (t *table) home(id uint64) int { return homeOf(id, t.n) }

func (t *table) id(i int) uint64 { return t.slots[i*t.stride] }

func (t *table) idle(i int) int64 {
	return t.epoch + int64(t.slots[i*t.stride+1]>>lowBits)
}

// inRange reports whether the epoch can express idle.
func (t *table) inRange(idle int64) bool {
	return t.n > 0 && idle > t.epoch && idle-t.epoch <= idleMax
}

// packIdle returns the second word of a slot. An instant out of range saturates.
func packIdle(idle, epoch int64, low uint64) uint64 {
	return uint64(min(max(idle-epoch, 1), idleMax))<<lowBits | low
}

// by returns the index of the version that slot i names.
func (t *table) by(i int) uint32 {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	return uint32(w[1]&lowMask>>lowBy) | uint32(w[2]&(1<<byHigh-1))<<byLow
}

// ahead is the longest time by which a bucket's Since and Last may be later than its Idle:
// a cancelled reservation leaves its instant.
const ahead = 2 * int64(sluice.MaxWait/1000) // µs

// before returns the time from an instant of a bucket to idle+ahead, 0 if the instant is
// 0, and instant the reverse. They do not depend on the epoch, whose changes must not
// shift the instant. An instant years before idle becomes a later one.
func before(idle, at int64) uint64 {
	if at == 0 {
		return 0
	}
	return uint64(min(max(idle+ahead-at, 1), idleMax))
}

func instant(idle int64, before uint64) int64 {
	if before == 0 {
		return 0
	}
	return max(idle+ahead-int64(before), 1)
}

// read unpacks slot i, which v wrote. It leaves out a ring, which is in the slab.
func (t *table) read(i int, v *version, s *algo.State) {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	*s = algo.State{Idle: t.epoch + int64(w[1]>>lowBits), Reserved: w[1]&reserved != 0}
	if v != nil {
		s.By = v.term
	}
	if v != nil && v.term.Burst > 0 && s.Reserved && !balance(v) {
		s.Reserved, s.Last = false, 1
	}
	switch {
	case balance(v):
		t.readBalance(w, s)
		switch s.Reserved = false; {
		case warms(v):
			s.B = t.readUsed(w)
		case w[1]&credit != 0:
			s.A, s.B = 0, -s.A
		}
	case t.size == sizePair:
		s.A, s.B = int64(w[2]>>byHigh&pairMask), int64(w[2]>>(byHigh+pairBits))
	case v != nil && v.term.Burst > 0:
		s.A, s.Since = int64(w[2]>>countBits), instant(s.Idle, w[3])
	default:
		s.A, s.B = int64(w[2]>>countBits), int64(w[3])
		if t.size == sizeRing {
			s.B = int64(w[ringBlock] >> blockBits)
			s.Head, s.Len = int(w[ringShape]>>20&(1<<20-1)), int(w[ringShape]&(1<<20-1))
		}
	}
}

func (t *table) readBalance(w []uint64, s *algo.State) {
	switch {
	case t.size == sizeRing:
		s.A = int64(w[2] >> countBits)
		s.Since, s.Last = instant(s.Idle, w[3]>>lowBits), instant(s.Idle, w[3]&lowMask<<lastLow|w[4]&(1<<lastLow-1))
	case w[1]&plain != 0:
		s.A = int64(w[3])
	default:
		s.A = int64(w[3]&lowMask | w[2]>>byHigh&(1<<remHigh-1)<<remLow)
		s.Since, s.Last = instant(s.Idle, w[3]>>lowBits), instant(s.Idle, w[2]>>lowBits)
	}
}

// readUsed and writeUsed read and write B of a bucket that warms up.
func (t *table) readUsed(w []uint64) int64 {
	if t.size == sizeRing {
		return int64(w[4] >> lastLow)
	}
	return int64(w[2] >> countBits)
}

func (t *table) writeUsed(w []uint64, used int64) {
	if t.size == sizeRing {
		w[4] |= uint64(used) << lastLow
	} else {
		w[2] |= uint64(used) << countBits
	}
}

// write packs s, which v wrote, into slot i. It leaves out a ring's words and block. Counts
// above mostCount saturate: only the sum of a counter's sub-windows can be above.
func (t *table) write(i int, v *version, s *algo.State, c class, flags uint64) {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	low, high := flags|uint64(c)<<lowClass, uint64(0)
	if v != nil {
		low |= uint64(v.index) << lowBy & lowMask
		high = uint64(v.index) >> byLow
	}
	if s.Reserved || s.Last > 0 && !balance(v) {
		low |= reserved
	}
	w[1] = packIdle(s.Idle, t.epoch, 0)
	count := min(uint64(s.A), mostCount)<<countBits | high
	switch idle := t.idle(i); { // the stored instant, which may have saturated
	case balance(v):
		low |= t.writeBalance(w, s, idle, high)
		if warms(v) {
			t.writeUsed(w, s.B)
		}
	case t.size == sizePair:
		w[2] = uint64(s.B)<<(byHigh+pairBits) | uint64(s.A)<<byHigh | high
	case v != nil && v.term.Burst > 0:
		w[2], w[3] = count, before(idle, s.Since)
	default:
		w[2], w[3] = count, uint64(s.B)
		if t.size == sizeRing {
			w[ringBlock] = w[ringBlock]&blockMask | uint64(min(s.B, maxRingB))<<blockBits
			w[ringShape] = uint64(len(s.Ring))<<40 | uint64(s.Head)<<20 | uint64(s.Len)
		}
	}
	w[1] |= low
}

func (t *table) writeBalance(w []uint64, s *algo.State, idle int64, high uint64) (flags uint64) {
	rem, since, last := uint64(s.A), before(idle, s.Since), before(idle, s.Last)
	if s.B < 0 {
		rem, flags = uint64(-s.B), credit
	}
	switch {
	case t.size == sizeRing:
		w[2], w[3], w[4] = rem<<countBits|high, since<<lowBits|last>>lastLow, last&(1<<lastLow-1)
		flags |= ringless
	case plainState(s):
		w[2], w[3] = high, rem
		flags |= plain
	default:
		w[2], w[3] = last<<lowBits|rem>>remLow<<byHigh|high, since<<lowBits|rem&lowMask
	}
	return flags
}

// rebuild moves the live states that live at now to a new block with room for more.
func (t *table) rebuild(live int, now int64, m *moves) {
	old := *t
	t.resize(live, now)
	for i := range old.n {
		if old.id(i) != 0 && old.idle(i) > now {
			m.note(i, t.adopt(&old, i), t.n)
		}
	}
}

// resize gives the table a new, empty block with room for live states and some more.
func (t *table) resize(live int, now int64) {
	want := live + live/2 + 8
	switch nearly := 4*live >= 3*t.cap; {
	case nearly && t.size == sizeFixed:
		want = live + live/14 + 8 // a state takes less than 40 bytes
	case nearly:
		want = t.cap + 1
	case live >= 64 && t.size == sizeFixed:
		want = live + live/4
	}
	want = min(want, max(live, t.cap)+1)
	// Grow rounds up to the size class of the allocator.
	t.slots = slices.Grow([]uint64(nil), (want*64/loads[t.size]+1)*t.stride)
	t.slots = t.slots[:cap(t.slots)]
	t.n = len(t.slots) / t.stride
	t.limit = t.n * loads[t.size] / 64
	t.used = live
	t.epoch = max(now-epochLead, 0)
}

// adopt copies slot i of an older block, and returns the new slot.
func (t *table) adopt(old *table, i int) int {
	w := old.slots[i*t.stride : (i+1)*t.stride]
	j := t.freeSlot(w[0])
	end := j
	for t.id(end) != 0 {
		end = after(end, t.n)
	}
	t.shift(j, end)
	to := t.slots[j*t.stride : (j+1)*t.stride]
	copy(to, w)
	to[1] = packIdle(old.idle(i), t.epoch, w[1]&lowMask)
	return j
}
