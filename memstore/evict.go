// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math"
	"slices"
	"sync/atomic"
)

const (
	// group is the number of denied states from which one is evicted.
	group = 64
	// purgeShare makes a full shard look for idle states after every
	// cap/purgeShare evictions.
	purgeShare = 16
	// At most 1/keptPart of a shard's states may be kept, and at least 1/sparePart
	// must not be shielded. If all could be denied, a client could fill a shard with
	// denied keys. Every other key would then be forgotten at once, so that guesses
	// under a key that is not denied yet were unlimited.
	keptPart, sparePart = 4, 8
)

// eviction is the state of the eviction of a shard.
type eviction struct {
	hand   hand // of the clock
	second hand // for shielded states, see giveWay
	excess int  // shielded states above the maximum
	kept   int  // states of class kept, including those dropped since the last count
}

// hand is a position in the ring of all slots of a shard, size by size.
type hand struct {
	size stateSize
	at   int
}

// moves keeps the hands in place while the slots of a size are replaced by others.
type moves struct {
	hands [2]*hand
	ends  [2]int // in the new slots: the end of the states that the hand has passed
	from  int    // number of old slots
}

func (e *eviction) moves(f stateSize, from int) (m moves) {
	m.from = from
	for i, h := range [...]*hand{&e.hand, &e.second} {
		if h.size == f {
			m.hands[i] = h
		}
	}
	return m
}

// note records that a state moves from one slot to another, in an array of slots slots.
func (m *moves) note(from, to, slots int) {
	for i, h := range m.hands {
		// A key far ahead of it wrapped round to the first slots, as the last were taken.
		if h != nil && from < h.at && to < h.at*slots/m.from+slots/8 {
			m.ends[i] = max(m.ends[i], to+1)
		}
	}
}

// end sets the hands behind the states that they have passed.
func (m *moves) end() {
	for i, h := range m.hands {
		if h != nil && h.at > 0 {
			h.at = m.ends[i]
		}
	}
}

// shifted makes the hands follow the states of slots first to last, which each moved to the
// next slot.
func (e *eviction) shifted(f stateSize, first, last int) {
	for _, h := range [...]*hand{&e.hand, &e.second} {
		if h.size != f {
			continue
		}
		if first <= last && first <= h.at && h.at <= last || last < first && (h.at >= first || h.at <= last) {
			h.at++
		}
	}
}

// slot is a state that a hand points at.
type slot struct {
	hand
	word  uint64 // if the size is sizeWord
	idle  int64
	class class
}

// makeRoom drops a state to make room for a new one, but none in keep. Now and then
// it drops all idle states. Otherwise the hand advances to the first state that is idle
// or cold, drops it, and makes each used state that it passes cold. So a state that is
// not shielded is dropped if it was not taken for between one and two rounds of the
// hand. If too many states are shielded, a denied one is dropped.
func (sh *shard) makeRoom(now int64, keep pins) {
	if sh.purge--; sh.purge < 0 && now >= sh.soonest {
		sh.purge = sh.cap / purgeShare
		if sh.dropIdle(now) {
			return
		}
	}
	r := &sh.eviction
	for left := 2 * sh.round(); left > 0 && r.excess == 0; left-- {
		if sh.settle(&r.hand) {
			denied, kept := sh.shielded(now)
			r.kept = kept
			r.excess = max(denied+kept-(sh.cap-max(sh.cap/sparePart, 1)), 0)
		}
		if s, ok := sh.look(r.hand, keep); ok && sh.pass(&s, now) {
			return // the hand stays: another state may have moved to this slot
		}
		r.hand.at++
	}
	sh.giveWay(now, keep)
	r.excess = max(r.excess-1, 0)
}

// round returns the number of slots of all sizes.
func (sh *shard) round() (n int) {
	for f := range sizes {
		n += sh.slots(f)
	}
	return n
}

// slots returns the number of slots of a size.
func (sh *shard) slots(f stateSize) int {
	if f == sizeWord {
		return sh.words.slots()
	}
	return sh.tables[f].n
}

// settle moves a hand behind the last slot of its size to the first slot of the next
// size, and reports whether that starts a new round.
func (sh *shard) settle(h *hand) (round bool) {
	for range sizes + 1 {
		if h.at < sh.slots(h.size) {
			break
		}
		h.at = 0
		if h.size++; h.size == sizes {
			h.size, round = 0, true
		}
	}
	return round
}

// look returns the state that h points at, and false if there is none or it is in keep.
func (sh *shard) look(h hand, keep pins) (s slot, ok bool) {
	s.hand = h
	if h.size == sizeWord {
		a := sh.words.array.Load()
		if s.word = atomic.LoadUint64(a.word(h.at)); s.word == 0 || s.word == busy {
			return s, false
		}
		s.idle, s.class = a.idle(s.word), classOf(s.word)
		return s, !slices.Contains(keep, a.id(h.at))
	}
	t := &sh.tables[h.size]
	if t.id(h.at) == 0 {
		return s, false
	}
	s.idle, s.class = t.idle(h.at), t.class(h.at)
	return s, !slices.Contains(keep, t.id(h.at))
}

// pass drops the state at the hand if it is idle or cold. Otherwise it makes a used
// state cold and reports false.
func (sh *shard) pass(s *slot, now int64) (dropped bool) {
	switch {
	case s.idle <= now || s.class == cold:
		if s.size == sizeWord {
			// A take that changed the word meanwhile keeps it.
			if !atomic.CompareAndSwapUint64(sh.words.array.Load().word(s.at), s.word, 0) {
				return false
			}
			sh.words.used--
		} else {
			sh.drop(&sh.tables[s.size], s.at, now)
		}
		sh.dropped(s.idle, now)
		return true
	case s.class != used:
	case s.size == sizeWord:
		atomic.CompareAndSwapUint64(sh.words.array.Load().word(s.at), s.word, withClass(s.word, cold))
	default:
		sh.tables[s.size].setClass(s.at, cold)
	}
	return false
}

// dropped counts a state that was dropped.
func (sh *shard) dropped(idle, now int64) {
	if idle <= now {
		sh.latest = max(sh.latest, now)
		return
	}
	sh.evicted++
	sh.evictedDebt = min(sh.evictedDebt+uint64(idle-now), math.MaxInt64/1000)
}

// giveWay drops the state of the next group of denied states that is idle soonest. If
// no state is denied it drops another one, and a kept one only if there is no other.
func (sh *shard) giveWay(now int64, keep pins) {
	order := [...]int{denied: 0, cold: 1, used: 1, kept: 2}
	h, n := &sh.eviction.second, 0
	var best slot
	found := false
	for left := sh.round(); left > 0 && n < group; left-- {
		sh.settle(h)
		s, ok := sh.look(*h, keep)
		h.at++
		if !ok {
			continue
		}
		if s.class == denied {
			n++
		}
		if a, b := order[s.class], order[best.class]; !found || a < b || a == b && s.idle < best.idle {
			best, found = s, true
		}
	}
	if !found {
		return // all states are in keep: one request may exceed the cap by its own limits
	}
	if best.size == sizeWord {
		// The word may have changed meanwhile.
		best.idle = sh.words.array.Load().idle(sh.words.remove(best.at))
	} else {
		sh.drop(&sh.tables[best.size], best.at, now)
	}
	sh.dropped(best.idle, now)
}

// shielded returns the number of denied states that live at now, and the number of kept
// states, idle ones included.
func (sh *shard) shielded(now int64) (deniedOnes, keptOnes int) {
	count := func(c class, idle int64) {
		switch {
		case c == kept:
			keptOnes++
		case c == denied && idle > now:
			deniedOnes++
		}
	}
	a := sh.words.array.Load()
	for i := range sh.words.slots() {
		if word := atomic.LoadUint64(a.word(i)); word != 0 && word != busy {
			count(classOf(word), a.idle(word))
		}
	}
	for f := range sh.tables {
		t := &sh.tables[f]
		for i := range t.n {
			if t.id(i) != 0 {
				count(t.class(i), t.idle(i))
			}
		}
	}
	return deniedOnes, keptOnes
}

// dropIdle drops all states that are idle at now and reports whether it dropped any.
func (sh *shard) dropIdle(now int64) bool {
	before := sh.used()
	soonest := int64(math.MaxInt64)
	dead, next := sh.words.dead(now)
	if soonest = min(soonest, next); dead > 0 {
		sh.rebuildWords(now, now)
	}
	for f := range sh.tables {
		dead, next := sh.tables[f].dead(now)
		if soonest = min(soonest, next); dead > 0 {
			sh.rebuild(&sh.tables[f], now)
		}
	}
	sh.soonest = soonest
	return sh.used() < before
}

// dead returns the number of states that are idle at now, and the instant of the next.
func (t *table) dead(now int64) (n int, next int64) {
	next = math.MaxInt64
	for i := range t.n {
		switch {
		case t.id(i) == 0:
		case t.idle(i) <= now:
			n++
		default:
			next = min(next, t.idle(i))
		}
	}
	return n, next
}

// dead is [table.dead] for words.
func (w *words) dead(now int64) (n int, next int64) {
	next = math.MaxInt64
	a := w.array.Load()
	for i := range w.slots() {
		switch word := atomic.LoadUint64(a.word(i)); {
		case word == 0:
		case a.idle(word) <= now:
			n++
		default:
			next = min(next, a.idle(word))
		}
	}
	return n, next
}
