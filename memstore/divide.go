// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

// A Store starts with few shards. One that is full of states is divided into two, until
// each has a single part of the hashes: so what a shard needs apart from its states is
// small beside them, however few keys there are, and no shard holds many.

// fullShard is how many states a shard holds before it is divided.
const fullShard = 1024

// has reports whether a part of the hashes is one of the shard's.
func (sh *shard) has(part uint64) bool { return part-uint64(sh.first) < uint64(sh.parts) }

// hold locks the shard of a part of the hashes.
func (s *Store) hold(part uint64) *shard {
	for {
		sh := s.shards[part].Load()
		sh.mu.Lock()
		if !sh.divided {
			return sh
		}
		sh.mu.Unlock()
	}
}

// lock locks the shard of a part of the hashes to decide a request, and divides it
// first if it is full.
func (s *Store) lock(part uint64) *shard {
	for {
		sh := s.shards[part].Load()
		sh.mu.Lock()
		if !sh.full {
			return sh
		}
		if !sh.divided {
			s.divide(sh, s.clock.now())
		}
		sh.mu.Unlock()
	}
}

// visit calls f with the shard of a part, under its lock, and returns the first part of
// the next one.
func (s *Store) visit(part int, f func(sh *shard)) (next int) {
	sh := s.hold(uint64(part))
	defer sh.mu.Unlock()
	f(sh)
	return sh.first + sh.parts
}

// newShard returns an empty shard of n parts of the hashes, which nobody finds yet.
func (s *Store) newShard(first, n int) *shard {
	sh := new(shard)
	sh.init(s.perShard*n, &s.registry, s.arrays[first:first+n])
	sh.first, sh.parts = first, n
	return sh
}

// publish lets a shard be found.
func (s *Store) publish(sh *shard) {
	for i := range sh.parts {
		s.shards[sh.first+i].Store(sh)
	}
}

// grown notes that the shard may have more states than before.
func (sh *shard) grown() { sh.full = sh.parts > 1 && sh.used() >= fullShard }

// halves are the shards into which another is divided.
type halves struct {
	parts [2]*shard
	bit   uint64 // of an identity: which of the two has it
}

func (h *halves) of(id uint64) int { return half(id, h.bit) }

func half(id, bit uint64) int {
	if id&bit != 0 {
		return 1
	}
	return 0
}

// divide moves the states of a shard that live at now into two others. The caller holds its
// lock, and is the only one to find it afterwards.
func (s *Store) divide(sh *shard, now int64) {
	half := sh.parts / 2
	h := halves{bit: uint64(half) << s.shift}
	for k := range h.parts {
		part := s.newShard(sh.first+k*half, half)
		part.latest, part.soonest = max(sh.latest, now), sh.soonest
		h.parts[k] = part
	}
	h.parts[0].evicted, h.parts[0].evictedDebt = sh.evicted, sh.evictedDebt
	h.words(sh, now)
	for size := sizeFixed; size < sizes; size++ {
		h.table(sh, size, now)
	}
	for _, part := range h.parts {
		part.grown()
		s.publish(part)
	}
	sh.divided = true
}

// words moves the words. A take without the lock that finds one of the old array's waits
// for the lock, as after a rebuild.
func (h *halves) words(sh *shard, now int64) {
	old := sh.words.array.Load()
	if old == nil {
		return
	}
	generation := sh.registry.generation.Load()
	states := old.drop(now-resting, now, generation, h.bit)
	var arrays [2]*wordArray
	for k, part := range h.parts {
		arrays[k] = part.words.sized(part.words.want(states[k]), now, generation)
	}
	var words [few]uint64
	for i := range old.slots {
		if i%few == 0 {
			old.seize(i, &words)
		}
		if word := words[i%few]; word != 0 {
			k := h.of(old.slots[i].id)
			arrays[k].adopt(old, i, word)
			h.parts[k].words.occupied++
			h.parts[k].room.count(classOf(word))
		}
	}
	for k, part := range h.parts {
		part.words.replace(arrays[k])
	}
}

// table moves the states in slots of a size.
func (h *halves) table(sh *shard, size stateSize, now int64) {
	from := &sh.tables[size]
	var live [2]int
	for i := range from.n {
		switch id := from.id(i); {
		case id == 0:
		case from.idle(i) > now:
			live[h.of(id)]++
		default:
			sh.free(from, i)
		}
	}
	for k, part := range h.parts {
		if live[k] > 0 {
			part.tables[size].resize(live[k], now)
		}
	}
	last := [...]int{-1, -1}
	for i := range from.n {
		id := from.id(i)
		if id == 0 || from.idle(i) <= now {
			continue
		}
		k := h.of(id)
		part := h.parts[k]
		to := &part.tables[size]
		j := to.adopt(from, i, last[k])
		part.room.count(to.class(j))
		if last[k] = j; size == sizeRing {
			part.takeRing(to.slots[j*to.stride:(j+1)*to.stride], sh)
		}
	}
}

// takeRing moves the ring that a slot names from the slab of another shard.
func (sh *shard) takeRing(w []uint64, from *shard) {
	if old, size := blockOf(w); old != 0 {
		b := sh.slab.alloc(size)
		copy(sh.slab.words(b, size), from.slab.words(old, size))
		w[ringBlock] = uint64(b)
	}
}
