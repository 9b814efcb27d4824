// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"math"
	"slices"
	"sync/atomic"
)

const (
	// group is how many denied states are looked at for one to evict.
	group = 64
	// purgeShare says how often a full shard looks for states that died: after
	// every cap/purgeShare evictions.
	purgeShare = 16
	// keptPart and sparePart are the part of a shard's states that may be of
	// class kept, and the part that must not be shielded. If all of a shard
	// could be denied, a client that fills it with keys of their own would have every
	// other key forgotten at once, and could guess under any that is not denied
	// yet.
	keptPart, sparePart = 4, 8
)

// room is what the choice of states to evict remembers.
type room struct {
	hand   hand // of the clock
	second hand // of those that shielded states give way to
	excess int  // how many states are shielded beyond what may be
	kept   int  // at least how many states are kept
}

// hand is a place in the ring of all slots of a shard, form by form.
type hand struct {
	size stateSize
	at   int
}

// moves follows the hands among the slots of a form that are replaced by others.
type moves struct {
	hands [2]*hand
	ends  [2]int // in the new slots: behind all states that the hand has passed
	from  int    // how many slots there were
}

func (r *room) moves(f stateSize, from int) (m moves) {
	m.from = from
	for i, h := range [...]*hand{&r.hand, &r.second} {
		if h.size == f {
			m.hands[i] = h
		}
	}
	return m
}

// note notes that a state goes from one slot to another of so many.
func (m *moves) note(from, to, slots int) {
	for i, h := range m.hands {
		// A key that is far ahead stood in the first slots because the last were taken.
		if h != nil && from < h.at && to < h.at*slots/m.from+slots/8 {
			m.ends[i] = max(m.ends[i], to+1)
		}
	}
}

// end puts the hands behind the states that they have passed.
func (m *moves) end() {
	for i, h := range m.hands {
		if h != nil && h.at > 0 {
			h.at = m.ends[i]
		}
	}
}

// shifted makes the hands follow the states of slots from first on, up to last, that each
// moved to the next slot.
func (r *room) shifted(f stateSize, first, last int) {
	for _, h := range [...]*hand{&r.hand, &r.second} {
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
	word  uint64 // of SizeWord
	idle  int64
	class class
}

// makeRoom drops a state so that a new one has room, but none of those to keep.
// Now and then it drops all that are idle. If there are none, the hand goes on
// to the first state that is idle or cold, and makes those cold that it passes
// and that have been used. So a state that is not shielded goes if it was not
// taken for between one and two of the hand's rounds. If too many are shielded,
// a denied one goes.
func (sh *shard) makeRoom(now int64, keep pins) {
	if sh.purge--; sh.purge < 0 && now >= sh.soonest {
		sh.purge = sh.cap / purgeShare
		if sh.dropIdle(now) {
			return
		}
	}
	r := &sh.room
	for left := 2 * sh.round(); left > 0 && r.excess == 0; left-- {
		if sh.settle(&r.hand) {
			denied, kept := sh.shielded(now)
			r.kept = kept
			r.excess = max(denied+kept-(sh.cap-max(sh.cap/sparePart, 1)), 0)
		}
		if s, ok := sh.look(r.hand, keep); ok && sh.pass(&s, now) {
			return // the hand stays: another state may have moved to its place
		}
		r.hand.at++
	}
	sh.giveWay(now, keep)
	r.excess = max(r.excess-1, 0)
}

// round returns how many slots there are in all.
func (sh *shard) round() (n int) {
	for f := range sizes {
		n += sh.slots(f)
	}
	return n
}

// slots returns how many slots states of a form have.
func (sh *shard) slots(f stateSize) int {
	if f == sizeWord {
		return sh.words.slots()
	}
	return sh.tables[f].n
}

// settle puts a hand that is beyond the slots of its form to the first slot of
// the next, and reports whether it starts a new round.
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

// look returns the state that h points at, if there is one that may be dropped.
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

// pass drops the state that the hand has come to, or reports false and leaves
// it, cold if it was used.
func (sh *shard) pass(s *slot, now int64) (dropped bool) {
	switch {
	case s.idle <= now || s.class == cold:
		if s.size == sizeWord {
			// A take that has it meanwhile keeps it.
			if !atomic.CompareAndSwapUint64(sh.words.array.Load().word(s.at), s.word, 0) {
				return false
			}
			sh.words.used--
		} else {
			sh.remove(&sh.tables[s.size], s.at)
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

// giveWay drops, of the next group of denied states, the one that is idle
// soonest. If no state is denied another goes, one that is kept last of all.
func (sh *shard) giveWay(now int64, keep pins) {
	order := [...]int{denied: 0, cold: 1, used: 1, kept: 2}
	h, n := &sh.room.second, 0
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
		return // all are this request's: it may exceed the cap by its own limits
	}
	if best.size == sizeWord {
		// It may have changed since it was looked at.
		best.idle = sh.words.array.Load().idle(sh.words.remove(best.at))
	} else {
		sh.remove(&sh.tables[best.size], best.at)
	}
	sh.dropped(best.idle, now)
}

// shielded returns how many states that live at now are denied, and how many,
// dead or alive, are kept.
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

// dropIdle drops all states that are idle at now and reports whether there were
// any.
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

// dead returns how many states are idle at now, and when the next one will be.
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

// dead is as that of table.
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
