// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/compiled"
)

// slotted reports whether [Store.takeSlot] may decide takes under t: any limit that starts
// without a deficit, except a bucket with continuous refill.
func slotted(t *sluice.Term) bool {
	return t.InitialDeficit == 0 && !t.PreFilled && (t.Burst == 0 || t.Refill != sluice.Continuous)
}

// takeSlot decides a take of a key that has no state, or one that the same limit wrote to a
// slot, as [Store.locked] does. It does nothing and reports false if the key may have other
// states, or if receipts of other limits count.
func (s *Store) takeSlot(sh *shard, p *sluice.Plan, cost int64, hash uint64, now int64, d *sluice.Decision) bool {
	var state algo.State
	t := p.Term(0)
	id := identity(hash, termMask(t.Series))
	tab, i := sh.slot(sizeOfForm(t), id, now)
	if i < 0 {
		return s.takeFirst(sh, p, cost, id, now, d)
	}
	v := sh.registry.at(tab.by(i))
	if v == nil || v.term.ID != t.ID || tab.slots[i*tab.stride+1]&more != 0 || t.OneWord && v.series.words.Load() == v { // the state becomes a word
		return false
	}
	sh.read(tab, i, &state)
	state.By, *d = nil, sluice.Decision{}
	written, ok := algo.CountTake(t, &state, now, cost, d)
	denies := ok && !d.Allowed
	if !ok {
		written, denies, now = s.decideOne(t, cost, &state, now, d)
	}
	c := tab.class(i)
	switch {
	case !written:
		if denies && c&shielded == 0 {
			tab.setClass(i, denied)
		}
	case state.Idle <= now:
		sh.latest = max(sh.latest, now)
		sh.remove(tab, i)
	case tab.size != sizeOf(v, &state) || !tab.inRange(state.Idle):
		sh.store(sizeOf(v, &state), id, now, v, &state, c.afterTake(denies, d), 0, pins{id})
	default:
		sh.soonest = min(sh.soonest, state.Idle)
		if tab.size == sizeRing {
			sh.storeRing(tab, i, &state)
		}
		tab.write(i, v, &state, c.afterTake(denies, d), 0)
	}
	return true
}

// count is takeSlot for the most frequent state of windows and interval buckets, that of two
// counts. It accesses only the words of the slot, which saves a quarter of the time.
func (sh *shard) count(t *sluice.Term, id uint64, cost, now int64, d *sluice.Decision) bool {
	tab := &sh.tables[sizePair]
	i := tab.find(id)
	if i < 0 || tab.idle(i) <= now {
		return false
	}
	v := sh.registry.at(tab.by(i))
	w := tab.slots[i*tab.stride : i*tab.stride+3]
	if v == nil || v.term.ID != t.ID || w[1]&(more|reserved) != 0 {
		return false
	}
	state := algo.State{Idle: tab.idle(i), A: int64(w[2] >> byHigh & pairMask), B: int64(w[2] >> (byHigh + pairBits))}
	written, ok := algo.CountTake(t, &state, now, cost, d)
	switch {
	case !ok || !tab.inRange(state.Idle) || state.A > pairMask:
		return false
	case written:
		sh.soonest = min(sh.soonest, state.Idle)
		w[1] = packIdle(state.Idle, tab.epoch, w[1]&lowMask&^(classMask<<lowClass)) // used
		w[2] = uint64(state.B)<<(byHigh+pairBits) | uint64(state.A)<<byHigh | w[2]&(1<<byHigh-1)
	case !d.Allowed && tab.class(i)&shielded == 0:
		tab.setClass(i, denied)
	}
	return true
}

// takeFirst is takeSlot for a key that has no state in a slot.
func (s *Store) takeFirst(sh *shard, p *sluice.Plan, cost int64, id uint64, now int64, d *sluice.Decision) bool {
	t := p.Term(0)
	v := s.registry.enter(p.Scope(), t, now)
	if ser := v.series; ser.words.Load() != nil || t.Burst > 0 && !ser.alone(now) {
		return false
	}
	var state algo.State
	*d = sluice.Decision{}
	written, denies := false, false
	if t.Kind == compiled.SlidingCounter && cost > 0 {
		written, _ = algo.CountTake(t, &state, now, cost, d)
	}
	if !written {
		written, denies, now = s.decideOne(t, cost, &state, now, d)
	}
	if written && state.Idle > now {
		size := sizeOf(v, &state)
		v.series.has(size)
		sh.store(size, id, now, v, &state, used.afterTake(denies, d), 0, pins{id})
	}
	return true
}

// oneTake holds the fields that [algo.Decide] reads of a take under one limit.
var oneTake sluice.Request

// decideOne decides a take with [algo.Decide], over a state that t wrote, and returns the
// instant of the decision.
func (s *Store) decideOne(t *sluice.Term, cost int64, state *algo.State, now int64, d *sluice.Decision) (written, denies bool, at int64) {
	sc := s.takeScratch()
	it := &sc.items[0]
	it.Term, it.Cost, it.Counted, it.Start, it.State, it.Others = t, cost, 0, 0, *state, it.Others[:0]
	at = s.again(sc.items[:1], now)
	*d = algo.Decide(&oneTake, sc.items[:1], at)
	*state, written, denies = it.State, it.Written, !d.Allowed && it.Denied()
	s.done(sc, 1)
	return written, denies, at
}

// afterTake returns the class of a state of class c that a take has changed, as
// [location.classify] chooses it.
func (c class) afterTake(denies bool, d *sluice.Decision) class {
	switch {
	case denies:
		return denied
	case d.Allowed || c != denied:
		return used
	}
	return denied
}
