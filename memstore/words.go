// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// words keeps the states of one word ([sizeWord]). A take of a key that has one needs no
// lock: it loads the word, decides, and replaces the word with a compare-and-swap. A denial
// writes nothing.
//
// A slot holds an identity and idle<<18 | class<<16 | A, with idle in µs since the epoch,
// or a wide word for a larger A: see wide.go. It is correct by these rules:
//
//  1. Within one array an identity is written once, into an empty slot, after
//     its word. It never moves and never changes. So a word loaded from the slot
//     of an identity always belongs to that identity, and an equal word is an
//     equal state: a compare-and-swap need not notice changes in between.
//  2. All other changes are made under the shard's lock. The holder of the lock first
//     owns the word by swapping busy for it. A take that finds busy, or 0 (no state),
//     retries under the lock. So no take disturbs a decision over several states, and
//     a key gets its word under the lock only.
//  3. When an array is replaced, each of its words is set to busy and then copied.
//     A take that still reads the old array takes the lock.
//  4. An idle state equals that of a new key, so a take may use it again where it
//     is, unless the key has a state under another limit. So a lookup of the states
//     of other limits removes idle words, and idle words from before a series was
//     forgotten are not used again.
//
// Slots are not reused. A full array is replaced, idle states included in the count. Only
// that allocates memory, and never a take of a key that has a word.
type words struct {
	// array points into Store.arrays, from which a take without the lock reads. A shard
	// of several parts of the hashes has the same array in the entry of each part.
	array  *atomic.Pointer[wordArray]
	others []atomic.Pointer[wordArray]

	// Guarded by the shard's lock:
	occupied int // slots with an identity
	used     int // of these, slots with a state, idle ones included
	limit    int // value of occupied at which the array must be replaced
	cap      int
}

type wordArray struct {
	epoch      int64 // µs since 1970
	slots      []wordSlot
	generation uint64 // of the registry when it was made
	// doubt is the latest idle instant of the words from before that generation. A word
	// idle at doubt or earlier is not used again.
	doubt int64
}

type wordSlot struct{ id, word uint64 }

const busy = ^uint64(0)

// resting is the time for which an idle word keeps its slot when the array is replaced. If
// keys are idle between their takes, few live at any instant: without the idle words most
// takes would find no slot and need the lock.
const resting = 10e6 // µs

// wordGrowth makes an array grow by 1/wordGrowth of its states.
const wordGrowth = 4

// The parts of a word. Below wideMark, 46 bits hold the longest refill of a limit, with
// [sluice.MaxWait], and 50 days for which the epoch can stay.
const (
	remBits      = 16
	remMask      = 1<<remBits - 1
	wordLowBits  = remBits + classBits
	wordIdleMax  = wideMark>>wordLowBits - 1
	wordShielded = shielded << remBits
)

func (a *wordArray) home(id uint64) int { return homeOf(id, len(a.slots)) }

func (a *wordArray) id(i int) uint64    { return atomic.LoadUint64(&a.slots[i].id) }
func (a *wordArray) word(i int) *uint64 { return &a.slots[i].word }

// idle returns the instant from which a word is idle, at the latest.
func (a *wordArray) idle(word uint64) int64 {
	if word >= wideMark {
		return a.wideIdle(word)
	}
	return a.epoch + int64(word>>wordLowBits)
}

// state returns a word's state, with the Idle of idle.
func (a *wordArray) state(word uint64) algo.State {
	if word >= wideMark {
		return algo.State{Idle: a.wideIdle(word), A: wideA(word)}
	}
	return algo.State{Idle: a.idle(word), A: int64(word & remMask)}
}

// stateOf returns the state of a word that t has written.
func (a *wordArray) stateOf(t *sluice.Term, word uint64) algo.State {
	s := a.state(word)
	if word >= wideMark {
		s.Idle = windowEnd(t, s.Idle)
	}
	return s
}

// windowEnd returns the last end of a window of t up to at; t is Wide.
func windowEnd(t *sluice.Term, at int64) int64 { return t.Inverse.Divide(at) * t.Micros }

// find returns the slot of id, or -1. It needs no lock. a may be nil.
func (a *wordArray) find(id uint64) int {
	if a == nil {
		return -1
	}
	for i := a.home(id); ; i = after(i, len(a.slots)) {
		switch a.id(i) {
		case id:
			return i
		case 0:
			return -1
		}
	}
}

// free returns the first empty slot for id.
func (a *wordArray) free(id uint64) int {
	i := a.home(id)
	for a.id(i) != 0 {
		i = after(i, len(a.slots))
	}
	return i
}

func (a *wordArray) inRange(idle, rem int64) bool {
	return idle > a.epoch && idle <= a.latest(rem)
}

func (a *wordArray) pack(idle, rem int64, c class) uint64 {
	if rem > remMask {
		return a.packWide(idle, rem, c)
	}
	return uint64(min(max(idle-a.epoch, 1), wordIdleMax))<<wordLowBits | uint64(c)<<remBits | uint64(rem)
}

// live returns the word of id, or 0 if there is none.
func (a *wordArray) live(id uint64) uint64 {
	if i := a.find(id); i >= 0 {
		return atomic.LoadUint64(a.word(i))
	}
	return 0
}

// slots returns the number of slots.
func (w *words) slots() int {
	if a := w.array.Load(); a != nil {
		return len(a.slots)
	}
	return 0
}

// own replaces the word of id by busy and returns it, or 0 if there is none. The caller,
// which holds the lock, must put or unlock it.
func (w *words) own(id uint64) uint64 {
	a := w.array.Load()
	if a == nil {
		return 0
	}
	i := a.find(id)
	if i < 0 || atomic.LoadUint64(a.word(i)) == 0 {
		return 0
	}
	return atomic.SwapUint64(a.word(i), busy)
}

// unlock puts back a word that own returned. The array must not have been replaced.
func (w *words) unlock(id, word uint64) {
	if word == 0 {
		return
	}
	a := w.array.Load()
	atomic.StoreUint64(a.word(a.find(id)), word)
}

// put keeps a state under id. It does nothing and reports false if the array has no slot
// for it, or if id has no state and room is false.
func (w *words) put(id uint64, idle, rem int64, c class, room bool) bool {
	a := w.array.Load()
	if a == nil || !a.inRange(idle, rem) {
		return false
	}
	i := a.find(id)
	if i >= 0 && atomic.LoadUint64(a.word(i)) != 0 {
		atomic.StoreUint64(a.word(i), a.pack(idle, rem, c))
		return true
	}
	if !room {
		return false
	}
	if i < 0 {
		if w.occupied >= w.limit {
			return false
		}
		i = a.free(id)
		w.occupied++
	}
	w.used++
	atomic.StoreUint64(a.word(i), a.pack(idle, rem, c))
	atomic.StoreUint64(&a.slots[i].id, id)
	return true
}

// remove drops the state of slot i and returns its word.
func (w *words) remove(i int) uint64 {
	w.used--
	return atomic.SwapUint64(w.array.Load().word(i), 0)
}

// rebuild drops the states that are idle at since, and moves the others to a new array
// with room for more.
func (w *words) rebuild(now, since int64, generation uint64, m *moves) {
	old := w.array.Load()
	if old == nil {
		old = &wordArray{}
	}
	n := old.drop(since, now, generation, 0)[0]
	want := w.want(n)
	// A full array needs some more slots to distinguish old states from new.
	want = min(want, max(n, w.cap)+w.cap/wordGrowth+1)
	a := w.sized(want, now, generation)
	a.doubt = old.doubt
	doubts := old.generation != generation
	for i := range old.slots {
		if word := old.seize(i, busy, 0); word != 0 {
			if doubts && word != busy {
				a.doubt = max(a.doubt, old.idle(word))
			}
			m.note(i, a.adopt(old, i, word), len(a.slots))
			w.occupied++
		}
	}
	w.replace(a)
}

// seize replaces the word of slot i by instead and returns it. It returns 0 if there is no
// state, or if bit is not 0 and the slot's identity lacks it.
func (a *wordArray) seize(i int, instead, bit uint64) uint64 {
	if id := a.id(i); id == 0 || id&bit != bit {
		return 0
	}
	return atomic.SwapUint64(a.word(i), instead)
}

// fewest is the number of states for which the last array of a shard before a division has
// room. Most shards of a Store that holds MaxKeys have as many.
const fewest = fullShard + 8

// want returns the number of states that a new array for live states should have room for.
func (w *words) want(live int) int {
	switch {
	case live < 64:
		return 2*live + 16
	case live < fullShard && 3*live >= fewest: // the array lasts until the shard is divided
		return max(live, min(w.most(), fewest))
	case live < fullShard:
		return live + live/2
	}
	return live + live/wordGrowth + 8
}

// most returns the maximum number of states before the shard is divided.
func (w *words) most() int {
	if len(w.others) > 0 {
		return fewest
	}
	return w.cap
}

// sized returns an empty array with room for want states. The caller fills it and puts it in
// place of the shard's array.
func (w *words) sized(want int, now int64, generation uint64) *wordArray {
	const load = 52 // 64ths of the slots that may be used
	slots := slices.Grow([]wordSlot(nil), want*64/load+1)
	slots = slots[:cap(slots)]
	w.occupied, w.limit = 0, len(slots)*load/64
	return &wordArray{epoch: max(now-epochLead, 0), slots: slots, generation: generation}
}

// adopt copies the word of slot i of an older array into an array that is not published yet,
// and returns its slot.
func (a *wordArray) adopt(old *wordArray, i int, word uint64) int {
	if word != busy { // else the holder of the lock owns it and will put it
		s := old.state(word)
		word = a.pack(s.Idle, s.A, classOf(word))
	}
	id := old.slots[i].id
	j := a.free(id)
	a.slots[j] = wordSlot{id, word}
	return j
}

// replace replaces the array by a, each of whose identities has a state.
func (w *words) replace(a *wordArray) {
	w.used = w.occupied
	w.array.Store(a)
	for i := range w.others {
		w.others[i].Store(a)
	}
}

// drop drops the states that are idle at since, or at now if the generation has changed,
// as such states must not be used again. It returns the numbers of states left, without
// and with the bit in their identity.
func (a *wordArray) drop(since, now int64, generation, bit uint64) (left [2]int) {
	if a.generation != generation {
		since = now
	}
	for i := range a.slots {
		word := atomic.LoadUint64(a.word(i))
		for word != 0 && a.idle(word) <= since {
			if atomic.CompareAndSwapUint64(a.word(i), word, 0) {
				word = 0
			} else { // a take changed it
				word = atomic.LoadUint64(a.word(i))
			}
		}
		if word != 0 {
			left[half(a.slots[i].id, bit)]++
		}
	}
	return left
}

// each calls f for every state that lives at now. The caller holds the lock; takes without
// it may change words meanwhile.
func (w *words) each(now int64, f func(id uint64, s *algo.State, c class)) {
	a := w.array.Load()
	if a == nil {
		return
	}
	for i := range a.slots {
		word := atomic.LoadUint64(a.word(i))
		if id := a.id(i); id != 0 && word != 0 && a.idle(word) > now {
			s := a.state(word)
			f(id, &s, classOf(word))
		}
	}
}
