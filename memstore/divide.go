// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

// A Store starts with few shards. A full shard is divided into two, until each has a
// single part of the hashes. So a Store of few keys spends little memory on shards, and
// no shard holds many states.

const (
	// fullShard is the number of states at which a shard is divided.
	fullShard = 1024
	// fullRings is the same for states with a ring, which take longer to move.
	fullRings = fullShard / 2
)

// has reports whether a part of the hashes is one of the shard's.
func (sh *shard) has(part uint64) bool { return part-uint64(sh.first) < uint64(sh.parts) }

// hold locks the shard of a part of the hashes.
func (s *Store) hold(part uint64) *shard {
	for {
		sh := s.shards[part].Load()
		sh.mu.Lock()
		if sh.has(part) {
			return sh
		}
		sh.mu.Unlock() // it has been divided meanwhile
	}
}

// lock locks the shard of a part of the hashes to decide a request, and divides it
// first if it is full.
func (s *Store) lock(part uint64) *shard {
	for {
		sh := s.shards[part].Load()
		sh.mu.Lock()
		if sh.has(part) {
			if !sh.full {
				return sh
			}
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

// newShard returns an empty shard of n parts of the hashes, which is not published yet.
func (s *Store) newShard(first, n int) *shard {
	sh := new(shard)
	sh.init(s.perShard*n, &s.registry, s.arrays[first:first+n])
	sh.first, sh.parts = first, n
	return sh
}

// publish makes the shard the one that lookups of its parts return.
func (s *Store) publish(sh *shard) {
	for i := range sh.parts {
		s.shards[sh.first+i].Store(sh)
	}
}

// grown sets full after states may have been added.
func (sh *shard) grown() {
	sh.full = sh.parts > 1 && (sh.used() >= fullShard || sh.tables[sizeRing].used >= fullRings)
}

// halves are the two shards of a division: the divided one, which keeps the first half of
// its parts, and a new one.
type halves struct {
	shards [2]*shard
	bit    uint64 // the bit of an identity that selects the second
}

func (h *halves) of(id uint64) int { return half(id, h.bit) }

func half(id, bit uint64) int {
	if id&bit != 0 {
		return 1
	}
	return 0
}

// divide moves the states of the second half of a shard's parts that live at now into a
// new shard. The caller holds the lock.
func (s *Store) divide(sh *shard, now int64) {
	n := sh.parts / 2
	other := s.newShard(sh.first+n, n)
	sh.latest = max(sh.latest, now)
	other.latest, other.soonest = sh.latest, sh.soonest
	sh.keep(n, s.perShard*n)
	h := halves{shards: [2]*shard{sh, other}, bit: uint64(n) << s.shift}
	h.words(now)
	h.holds()
	for size := sizeFixed; size < sizes; size++ {
		h.table(size, now)
	}
	if sh.eviction.kept > 0 {
		_, sh.eviction.kept = sh.shielded(now)
	}
	sh.grown()
	other.grown()
	s.publish(other)
}

// keep reduces the shard to its first parts, with room for at most most states.
func (sh *shard) keep(parts, most int) {
	sh.parts, sh.words.others = parts, sh.words.others[:parts-1]
	sh.setCap(most)
}

// words moves the words of the second half to a new array. The others stay in the old
// array, which halves the work; it is replaced when it is full, which is soon. A take
// without the lock that finds no word in the old array takes the lock, and so finds the
// new shard.
func (h *halves) words(now int64) {
	from, to := &h.shards[0].words, h.shards[1]
	old := from.array.Load()
	if old == nil {
		return
	}
	generation := to.registry.generation.Load()
	left := old.drop(now-resting, now, generation, h.bit)
	from.used = left[0]
	a := to.words.sized(to.words.want(left[1]), now, generation)
	a.doubt = old.doubt
	for i := range old.slots {
		if word := old.seize(i, 0, h.bit); word != 0 {
			if old.generation != generation && word != busy {
				a.doubt = max(a.doubt, old.idle(word))
			}
			a.adopt(old, i, word)
			to.words.occupied++
			to.eviction.count(classOf(word))
		}
	}
	to.words.replace(a)
}

// table moves the states in slots of a size into new tables, one for each half.
func (h *halves) table(size stateSize, now int64) {
	sh := h.shards[0]
	from, rings := sh.tables[size], sh.slab
	var live [2]int
	for i := range from.n {
		switch id := from.id(i); {
		case id == 0:
		case from.idle(i) > now:
			live[h.of(id)]++
		default:
			sh.free(&from, i)
		}
	}
	t := &sh.tables[size]
	t.n, t.used, t.limit, t.slots = 0, 0, 0, nil
	if size == sizeRing {
		sh.slab = slab{}
	}
	for k, part := range h.shards {
		if live[k] > 0 {
			part.tables[size].resize(live[k], now)
		}
	}
	for i := range from.n {
		id := from.id(i)
		if id == 0 || from.idle(i) <= now {
			continue
		}
		k := h.of(id)
		part := h.shards[k]
		to := &part.tables[size]
		j := to.adopt(&from, i)
		if k == 1 {
			part.eviction.count(to.class(j))
		}
		if size == sizeRing {
			part.takeRing(to.slots[j*to.stride:(j+1)*to.stride], &rings)
		}
	}
}

// takeRing moves the ring that a slot names from another slab, which may be the shard's
// former one.
func (sh *shard) takeRing(w []uint64, from *slab) {
	if old, size := blockOf(w); old != 0 {
		b := sh.slab.alloc(size)
		copy(sh.slab.words(b, size), from.words(old, size))
		setBlock(w, b)
	}
}
