// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

const sizes = sizePair + 1

// shard is a part of the states under one lock. It is small, so that rebuilding one of
// its tables takes tens of µs and no call waits long.
type shard struct {
	shardState
	_ [(128 - unsafe.Sizeof(shardState{})%128) % 128]byte // no two locks in one pair of cache lines
}

type shardState struct {
	words    words // takes of these need no lock
	mu       sync.Mutex
	first    int          // its first part of the hashes
	parts    int          // number of its parts
	full     bool         // whether it is to be divided
	tables   [sizes]table // by size; that of sizeWord is unused
	slab     slab
	cap      int       // maximum number of states
	registry *registry // the Store's

	holds map[uint64]*algo.Holds // see holds.go; nil if there were none

	latest int64 // latest instant at which a state was dropped as idle

	eviction    eviction
	evicted     uint64 // states that were dropped alive
	evictedDebt uint64 // sum of the µs that these had yet to live
	purge       int    // evictions until the next search for idle states
	soonest     int64  // no state is idle before this instant
}

// init makes an empty shard of at most most states. arrays are the pointers to its words,
// one for each part.
func (sh *shard) init(most int, r *registry, arrays []atomic.Pointer[wordArray]) {
	sh.registry = r
	sh.words.array, sh.words.others = &arrays[0], arrays[1:]
	for f := range sh.tables {
		sh.tables[f].size, sh.tables[f].stride = stateSize(f), strides[f]
	}
	sh.setCap(most)
}

// setCap sets the maximum number of states. Until the shard is divided its tables need
// less room.
func (sh *shard) setCap(most int) {
	sh.cap, sh.words.cap = most, most
	for f := range sh.tables {
		sh.tables[f].cap = sh.words.most()
	}
}

// used returns the number of states, idle ones included.
func (sh *shard) used() int {
	n := sh.words.used
	for f := range sh.tables {
		n += sh.tables[f].used
	}
	return n
}

// pins are the identities that a request is about to write. They must not be evicted
// for each other.
type pins []uint64

// word takes the word of id, which t has written, and reports whether its state lives at
// now. The word is 0 if there is none. Otherwise the caller must put, remove or unlock it.
func (sh *shard) word(t *sluice.Term, id uint64, now int64, s *algo.State) (word uint64, live bool) {
	if word = sh.words.own(id); word == 0 {
		return 0, false
	}
	*s = sh.words.array.Load().stateOf(t, word)
	return word, s.Idle > now
}

// find returns the slot of id in t, -1 if there is none or its state is idle.
func (sh *shard) find(t *table, id uint64, now int64) int {
	if i := t.find(id); i >= 0 && t.idle(i) > now {
		return i
	}
	return -1
}

// lookOrder is the order of tables in which a state is searched, by the size of its
// limit's form.
var lookOrder = [...][3]stateSize{
	sizeWord:  {sizeFixed, sizeRing, sizePair},
	sizeFixed: {sizePair, sizeFixed, sizeRing},
	sizeRing:  {sizeRing, sizePair, sizeFixed},
}

// slot returns the table and slot of the state of id that lives at now, for a limit whose
// form has that size. The slot is -1 if there is none.
func (sh *shard) slot(form stateSize, id uint64, now int64) (t *table, i int) {
	for _, size := range lookOrder[form] {
		t = &sh.tables[size]
		if i = sh.find(t, id, now); i >= 0 {
			break
		}
	}
	return t, i
}

// read reads the state of slot i into s and returns the version that wrote it. The ring of
// s is in the slab: the caller may change it in place and must hold the lock until it has
// stored the state.
func (sh *shard) read(t *table, i int, s *algo.State) *version {
	v := sh.registry.at(t.by(i))
	t.read(i, v, s)
	if t.size == sizeRing && !balance(v) {
		s.Ring = sh.ring(t, i)
	}
	return v
}

func (sh *shard) ring(t *table, i int) []uint64 {
	w := t.slots[i*t.stride : (i+1)*t.stride]
	return sh.slab.words(blockOf(w))
}

// store keeps the state of id, written by v, in a slot.
func (sh *shard) store(size stateSize, id uint64, now int64, v *version, s *algo.State, c class, flags uint64, keep pins) {
	sh.forgetOthers(size, id, now)
	sh.storeAt(sh.tables[size].find(id), size, id, now, v, s, c, flags, keep)
}

// forgetOthers drops the states of id in slots of all other sizes. Mostly these are idle
// at now. But a later caller may decide at an earlier instant, at which it would find
// such a state in place of the one that is about to be stored.
func (sh *shard) forgetOthers(size stateSize, id uint64, now int64) {
	for f := range sh.tables {
		t := &sh.tables[f]
		if stateSize(f) == size {
			continue
		}
		if i := t.find(id); i >= 0 {
			if t.idle(i) <= now {
				sh.latest = max(sh.latest, now)
			}
			sh.remove(t, i)
		}
	}
}

// storeAt is store for a slot i that [table.find] returned, without states of other sizes.
func (sh *shard) storeAt(i int, size stateSize, id uint64, now int64, v *version, s *algo.State, c class, flags uint64, keep pins) {
	sh.soonest = min(sh.soonest, s.Idle)
	t := &sh.tables[size]
	if i >= 0 && t.idle(i) <= now { // an idle state, maybe of another form
		sh.latest = max(sh.latest, now)
	}
	if i < 0 {
		i = sh.insert(t, id, ^i, now, s.Idle, keep)
	} else if !t.inRange(s.Idle) {
		sh.rebuild(t, now)
		if i = t.find(id); i < 0 { // it was idle and rebuild has dropped it
			i = sh.insert(t, id, ^i, now, s.Idle, keep)
		}
	}
	if before := t.by(i); v == nil || before != v.index {
		if v != nil {
			v = sh.registry.name(v, now)
		}
		sh.registry.unname(before)
	}
	if size == sizeRing {
		sh.storeRing(t, i, s)
	}
	t.write(i, v, s, c, flags)
}

func (sh *shard) storeWord(id uint64, now int64, s *algo.State, c class, keep pins) {
	defer sh.grown()
	w := &sh.words
	if w.put(id, s.Idle, s.A, c, sh.used() < sh.cap) {
		return
	}
	if a := w.array.Load(); sh.used() >= sh.cap && (a == nil || a.live(id) == 0) {
		sh.makeRoom(now, keep)
	}
	if w.put(id, s.Idle, s.A, c, true) {
		return
	}
	sh.rebuildWords(now, now-resting)
	if !w.put(id, s.Idle, s.A, c, true) {
		// No epoch can express the instant, so it saturates.
		w.put(id, w.array.Load().latest(s.A), s.A, c, true)
	}
}

// rebuildWords replaces the words' array, without the states that are idle at since.
func (sh *shard) rebuildWords(now, since int64) {
	m := sh.eviction.moves(sizeWord, sh.words.slots())
	sh.words.rebuild(now, since, sh.registry.generation.Load(), &m)
	m.end()
	sh.latest = max(sh.latest, now)
}

// storeRing copies the ring of s into the slab, unless it is there already.
func (sh *shard) storeRing(t *table, i int, s *algo.State) {
	held := sh.ring(t, i)
	if len(held) == len(s.Ring) && (len(held) == 0 || &held[0] == &s.Ring[0]) {
		return
	}
	if sh.slab.sparse() {
		sh.clearOut()
	}
	// Read the block only now: clearOut may have moved it.
	w := t.slots[i*t.stride : (i+1)*t.stride]
	old, size := blockOf(w)
	setBlock(w, 0)
	if len(s.Ring) > 0 {
		b := sh.slab.alloc(len(s.Ring))
		copy(sh.slab.words(b, len(s.Ring)), s.Ring)
		setBlock(w, b)
	}
	sh.slab.release(old, size)
}

// clearOut moves the rings out of the emptiest chunk of the slab.
func (sh *shard) clearOut() {
	from := sh.slab.emptiest()
	if from < 0 {
		return
	}
	sh.slab.abandon(from)
	t := &sh.tables[sizeRing]
	for i := range t.n {
		w := t.slots[i*t.stride : (i+1)*t.stride]
		old, size := blockOf(w)
		if old == 0 || old.chunk() != from {
			continue
		}
		b := sh.slab.alloc(size)
		copy(sh.slab.words(b, size), sh.slab.words(old, size))
		sh.slab.chunks[from].live -= size
		setBlock(w, b)
	}
	sh.slab.drop(from)
}

// forget drops the state of id in a slot of a size, if there is one.
func (sh *shard) forget(size stateSize, id uint64) {
	t := &sh.tables[size]
	if i := t.find(id); i >= 0 {
		sh.remove(t, i)
	}
}

// forgetWord drops the word of id, if there is one.
func (sh *shard) forgetWord(id uint64) {
	if a := sh.words.array.Load(); a != nil && a.live(id) != 0 {
		sh.words.remove(a.find(id))
	}
}

func (sh *shard) remove(t *table, i int) {
	sh.free(t, i)
	t.remove(i)
}

// free releases the memory that a state has outside its slot, and its version.
func (sh *shard) free(t *table, i int) {
	index := t.by(i)
	w := t.slots[i*t.stride : (i+1)*t.stride]
	if t.size == sizeRing {
		sh.slab.release(blockOf(w))
		w[ringBlock], w[ringShape] = 0, 0
	}
	sh.registry.unname(index)
	w[1], w[2] = w[1]&^(lowMask>>lowBy<<lowBy), w[2]&^(1<<byHigh-1) // no version
}

func (sh *shard) rebuild(t *table, now int64) {
	sh.latest = max(sh.latest, now)
	live := 0
	for i := range t.n {
		switch {
		case t.id(i) == 0:
		case t.idle(i) > now:
			live++
		default:
			sh.free(t, i)
		}
	}
	m := sh.eviction.moves(t.size, t.n)
	t.rebuild(live, now, &m)
	m.end()
}

// insert returns a slot for id, which has none and belongs at i, for a state that lives
// until idle.
func (sh *shard) insert(t *table, id uint64, i int, now, idle int64, keep pins) int {
	if t.used >= t.limit || !t.inRange(idle) {
		sh.rebuild(t, now)
		i = t.freeSlot(id)
	}
	if sh.used() >= sh.cap {
		sh.makeRoom(now, keep)
		i = t.freeSlot(id)
	}
	end := t.end(i, now)
	if t.id(end) != 0 {
		sh.free(t, end)
		sh.latest = max(sh.latest, now)
	} else {
		t.used++
	}
	sh.grown()
	t.shift(i, end)
	sh.eviction.shifted(t.size, i, end)
	w := t.slots[i*t.stride : (i+1)*t.stride]
	clear(w)
	w[0] = id
	return i
}
