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

// shard is a part of the states under one lock. It is small, so that rebuilding
// one of its tables takes tens of µs and no call ever waits for long.
type shard struct {
	shardState
	_ [(128 - unsafe.Sizeof(shardState{})%128) % 128]byte // no two locks in one pair of cache lines
}

type shardState struct {
	words    words // takes of these need no lock: see there
	mu       sync.Mutex
	first    int          // of the parts of the hashes that it has
	parts    int          // how many these are
	full     bool         // it is to be divided
	tables   [sizes]table // that of SizeWord is not used
	slab     slab
	cap      int       // most states held
	registry *registry // the Store's

	latest int64 // latest instant at which a state was dropped as idle

	room        room   // makes room for a new key
	evicted     uint64 // states that were dropped alive
	evictedDebt uint64 // µs that these had yet to live, in all
	purge       int    // evictions until the next look for states that died
	soonest     int64  // no state dies before this, as far as the last look showed
}

// init makes an empty shard of at most most states, with the places of its words.
func (sh *shard) init(most int, r *registry, arrays []atomic.Pointer[wordArray]) {
	sh.registry = r
	sh.words.array, sh.words.others = &arrays[0], arrays[1:]
	for f := range sh.tables {
		sh.tables[f].size, sh.tables[f].stride = stateSize(f), strides[f]
	}
	sh.setCap(most)
}

// setCap says that the shard holds so many states at most. Tables are no larger than they
// need be until it is divided.
func (sh *shard) setCap(most int) {
	sh.cap, sh.words.cap = most, most
	for f := range sh.tables {
		sh.tables[f].cap = sh.words.most()
	}
}

// used returns how many states are held, idle ones included.
func (sh *shard) used() int {
	n := sh.words.used
	for f := range sh.tables {
		n += sh.tables[f].used
	}
	return n
}

// pins are the identities that a request is about to write: they must not make
// room for each other.
type pins []uint64

// word takes the word of id, if there is one, which t has written, and reports whether it
// is a state that lives at now. The word is the caller's: it must put, remove or unlock it.
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

// lookOrder is in which tables a state is looked for, by the size of its limit's form.
var lookOrder = [...][3]stateSize{
	sizeWord:  {sizeFixed, sizeRing, sizePair},
	sizeFixed: {sizePair, sizeFixed, sizeRing},
	sizeRing:  {sizeRing, sizePair, sizeFixed},
}

// slot returns the slot of id, of a form of a size, that lives at now, and its table; -1
// if there is none.
func (sh *shard) slot(form stateSize, id uint64, now int64) (t *table, i int) {
	for _, size := range lookOrder[form] {
		t = &sh.tables[size]
		if i = sh.find(t, id, now); i >= 0 {
			break
		}
	}
	return t, i
}

// read reads the state of slot i and the limit that wrote it. A ring lies in the slab: the
// caller may change it in place and must hold the lock until it has stored the
// state.
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

// store keeps the state of id, written by v, in a slot, and returns it.
func (sh *shard) store(size stateSize, id uint64, now int64, v *version, s *algo.State, c class, flags uint64, keep pins) {
	sh.forgetOthers(size, id, now)
	sh.storeAt(sh.tables[size].find(id), size, id, now, v, s, c, flags, keep)
}

// forgetOthers drops what id has in slots of other sizes than one: mostly a state that is
// idle at now, but at an instant before, which may be that of the next caller, would be
// found in place of the one that is about to be stored.
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

// storeAt is store where [table.find] has returned i, and other sizes have nothing.
func (sh *shard) storeAt(i int, size stateSize, id uint64, now int64, v *version, s *algo.State, c class, flags uint64, keep pins) {
	sh.soonest = min(sh.soonest, s.Idle)
	t := &sh.tables[size]
	if i >= 0 && t.idle(i) <= now { // maybe one of another form, that is forgotten
		sh.latest = max(sh.latest, now)
	}
	if i < 0 {
		i = sh.insert(t, id, ^i, now, s.Idle, keep)
	} else if !t.inRange(s.Idle) {
		sh.rebuild(t, now)
		if i = t.find(id); i < 0 { // it had died and is gone
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
		// The instant is beyond any epoch: it saturates.
		w.put(id, w.array.Load().latest(s.A), s.A, c, true)
	}
}

// rebuildWords replaces the words' array, without the states that are idle at since.
func (sh *shard) rebuildWords(now, since int64) {
	m := sh.room.moves(sizeWord, sh.words.slots())
	sh.words.rebuild(now, since, sh.registry.generation.Load(), &m)
	m.end()
	sh.latest = max(sh.latest, now)
}

// storeRing puts the ring of s into the slab, unless that is where it is.
func (sh *shard) storeRing(t *table, i int, s *algo.State) {
	held := sh.ring(t, i)
	if len(held) == len(s.Ring) && (len(held) == 0 || &held[0] == &s.Ring[0]) {
		return
	}
	if sh.slab.sparse() {
		sh.clearOut()
	}
	// Only now: clearing out may have moved the block.
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

// free gives back what a state has outside its slot.
func (sh *shard) free(t *table, i int) {
	index := t.by(i)
	w := t.slots[i*t.stride : (i+1)*t.stride]
	if t.size == sizeRing {
		sh.slab.release(blockOf(w))
		w[ringBlock], w[ringShape] = 0, 0
	}
	sh.registry.unname(index)
	w[1], w[2] = w[1]&^(lowMask>>lowBy<<lowBy), w[2]&^(1<<byHigh-1) // it names nobody any more
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
	m := sh.room.moves(t.size, t.n)
	t.rebuild(live, now, &m)
	m.end()
}

// insert returns a slot for id, which has none, belongs at i, and will hold a state that
// lives until idle.
func (sh *shard) insert(t *table, id uint64, i int, now, idle int64, keep pins) int {
	if t.used >= t.limit || !t.inRange(idle) {
		sh.rebuild(t, now)
		i = t.place(id)
	}
	if sh.used() >= sh.cap {
		sh.makeRoom(now, keep)
		i = t.place(id)
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
	sh.room.shifted(t.size, i, end)
	w := t.slots[i*t.stride : (i+1)*t.stride]
	clear(w)
	w[0] = id
	return i
}
