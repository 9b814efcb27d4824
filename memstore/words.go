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
// lock: it loads the word, decides, and swaps the new word for the old one if that is still
// there. A denial writes nothing.
//
// A slot holds an identity and idle<<18 | class<<16 | A, idle in µs since the
// epoch, or where A is larger what wide.go has. These rules make it right:
//
//  1. Within one array an identity is written once, into an empty slot, after
//     its word. It never moves and never changes. So a word that is loaded from
//     the slot of an identity is that identity's, whatever happened between,
//     and if it is the same word when swapped it is the same state: it does not
//     matter whether it has been another meanwhile.
//  2. All else is done by the holder of the shard's lock. It first owns the word
//     by swapping busy for it. A take that finds busy, or 0 (no state), retries under
//     the lock. So what the holder decides over several states is not disturbed,
//     and a key that is not there comes to be there under the lock only.
//  3. An array that is replaced is left with busy in every word, and each word
//     is copied after that. A take that still reads it takes the lock, too.
//  4. An idle state equals that of a new key, so it may come to life again where
//     it is, but not beside a state of the same key under another limit. So who
//     looks for the states of other limits removes words that are idle, and in
//     an array from before a series was forgotten none comes to life.
//
// Slots are not used again. An array is replaced when it is full, states that died included.
// Memory is allocated then, and never in a take of a key that has a word.
type words struct {
	// array is in the Store's list, which is all that a take without the lock reads of the
	// shard. A shard of several parts of the hashes has a place there for each, all the same.
	array  *atomic.Pointer[wordArray]
	others []atomic.Pointer[wordArray]

	// Under the shard's lock:
	occupied int // slots with an identity
	used     int // of these, slots with a state, idle ones included
	limit    int // occupied at which the array must be replaced
	cap      int
}

type wordArray struct {
	epoch      int64 // µs since 1970
	slots      []wordSlot
	generation uint64 // of the registry when it was made
	// doubt is when the last word is idle that is from before that: like those of an older
	// array it does not come to life again.
	doubt int64
}

type wordSlot struct{ id, word uint64 }

const busy = ^uint64(0)

// resting is for how long a word that is idle keeps its slot when the array is replaced.
// Where keys rest between their takes few live at any instant: with room for those
// alone most takes would find no slot, and need the lock.
const resting = 10e6 // µs

// wordGrowth says by what part of its states an array grows.
const wordGrowth = 4

// What a word consists of. Below wideMark, 46 bits hold the longest refill that a limit
// can have, with [sluice.MaxWait], and 50 days for which the epoch can stay.
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

// state returns a word's state, of which idle says Idle.
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
		s.Idle = t.WindowEnd(s.Idle)
	}
	return s
}

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

// live returns the word of id, 0 if there is none.
func (a *wordArray) live(id uint64) uint64 {
	if i := a.find(id); i >= 0 {
		return atomic.LoadUint64(a.word(i))
	}
	return 0
}

// slots returns how many slots there are.
func (w *words) slots() int {
	if a := w.array.Load(); a != nil {
		return len(a.slots)
	}
	return 0
}

// own takes the word of id for the holder of the lock, which must put or unlock
// it, and returns it: 0, and nothing to do, if there is none.
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

// unlock puts back what own returned. The array must not have been replaced.
func (w *words) unlock(id, word uint64) {
	if word == 0 {
		return
	}
	a := w.array.Load()
	atomic.StoreUint64(a.word(a.find(id)), word)
}

// put keeps a state under id and reports false, having done nothing, where it
// has no room in the array, or more states than others would be held.
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

// rebuild replaces the array by one for the states that live at now and those that
// rest, with room for a share more. It drops the states that are idle at since.
func (w *words) rebuild(now, since int64, generation uint64, m *moves) {
	old := w.array.Load()
	if old == nil {
		old = &wordArray{}
	}
	n := old.drop(since, now, generation, 0)[0]
	want := w.want(n)
	// One that is full of states needs some more slots to distinguish old states from new.
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

// fewest is how many states the last array of a shard before a division has room for. Most
// shards of a Store that holds MaxKeys have as many.
const fewest = fullShard + 8

// want returns how many states an array needs room for that has live states now.
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

// most returns how many states there are at most before the shard is divided.
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
	if word != busy { // else the lock's holder owns it, and will put it
		s := old.state(word)
		word = a.pack(s.Idle, s.A, classOf(word))
	}
	id := old.slots[i].id
	j := a.free(id)
	a.slots[j] = wordSlot{id, word}
	return j
}

// replace puts an array, whose slots are all states, in place of that which is there.
func (w *words) replace(a *wordArray) {
	w.used = w.occupied
	w.array.Store(a)
	for i := range w.others {
		w.others[i].Store(a)
	}
}

// drop drops the states that are idle at since, and returns how many are left, apart for
// identities without and with a bit. Where a series has been forgotten since, it drops what is
// idle at now: none of that may come to life.
func (a *wordArray) drop(since, now int64, generation, bit uint64) (left [2]int) {
	if a.generation != generation {
		since = now
	}
	for i := range a.slots {
		word := atomic.LoadUint64(a.word(i))
		for word != 0 && a.idle(word) <= since {
			if atomic.CompareAndSwapUint64(a.word(i), word, 0) {
				word = 0
			} else { // a take has it
				word = atomic.LoadUint64(a.word(i))
			}
		}
		if word != 0 {
			left[half(a.slots[i].id, bit)]++
		}
	}
	return left
}

// each calls f for every state that lives at now. Under the lock, but single
// words may change meanwhile.
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
