// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// slotTake reports whether [Store.single] may decide req, a request of one limit: a take
// under any but a bucket with continuous refill, of a key that is not empty.
func slotTake(req *sluice.Request, t *sluice.Term) bool {
	return req.Op == sluice.OpTake && req.MaxWait == 0 && req.Outcomes == nil && req.Key != "" &&
		t.InitialDeficit == 0 && !t.PreFilled && (t.Burst == 0 || t.Refill != sluice.Continuous)
}

// oneTake is what [algo.Decide] looks at in a request of one limit.
var oneTake sluice.Request

// single decides a [slotTake] of a key that has one state, which the same limit wrote, or
// none: what most takes find. It is [Store.locked] without what other requests need, and
// reports false, having done nothing, where there is more to look at.
func (s *Store) single(sh *shard, req *sluice.Request, t *sluice.Term, hash uint64, now int64, d *sluice.Decision) bool {
	id := identity(hash, termMask(t.Series))
	tab, i := sh.slot(sizeOfForm(t), id, now)
	if i < 0 {
		return s.first(sh, req, t, id, 0, now, d)
	}
	if tab.slots[i*tab.stride+1]&more != 0 {
		return false
	}
	v := sh.registry.at(tab.by(i))
	if v == nil || v.term.ID != t.ID || t.OneWord && v.series.words.Load() == v { // which becomes a word
		return false
	}
	var state algo.State
	sh.read(tab, i, &state)
	state.By = nil
	*d = sluice.Decision{}
	written, ok := algo.CountTake(t, &state, now, req.Cost, d)
	denies := ok && !d.Allowed
	if !ok {
		written, denies, now = s.decideOne(t, req, &state, now, d)
	}
	switch {
	case !written:
		if denies && tab.class(i)&shielded == 0 {
			tab.setClass(i, denied)
		}
	case state.Idle <= now:
		sh.latest = max(sh.latest, now)
		sh.remove(tab, i)
	case tab.size != sizeOf(v, &state) || !tab.inRange(state.Idle):
		sh.store(sizeOf(v, &state), id, now, v, &state, tab.class(i).afterTake(denies, d), 0, pins{id})
	default:
		sh.soonest = min(sh.soonest, state.Idle)
		if tab.size == sizeRing {
			sh.storeRing(tab, i, &state)
		}
		tab.write(i, v, &state, tab.class(i).afterTake(denies, d), 0)
	}
	return true
}

// first is single where no slot has a state of the key that lives; pair is what
// [shard.count] says of it. It reports false, having done nothing, where there may be one
// elsewhere, or receipts of other limits count.
func (s *Store) first(sh *shard, req *sluice.Request, t *sluice.Term, id uint64, pair int, now int64, d *sluice.Decision) bool {
	v := s.registry.enter(req.Plan.Scope(), t, now)
	if ser := v.series; ser.words.Load() != nil || t.Burst > 0 && !ser.alone(now) {
		return false
	}
	var state algo.State
	*d = sluice.Decision{}
	written, denies := false, false
	if t.Algorithm == sluice.SlidingCounter && req.Cost > 0 {
		written, _ = algo.CountTake(t, &state, now, req.Cost, d)
	}
	if !written {
		written, denies, now = s.decideOne(t, req, &state, now, d)
	}
	if size := sizeOf(v, &state); written && state.Idle > now {
		if bit := uint32(1) << size; v.series.sizes.Load()&bit == 0 {
			v.series.sizes.Or(bit)
		}
		if c := used.afterTake(denies, d); size == sizePair && pair < 0 {
			sh.storeAt(pair, size, id, now, v, &state, c, 0, pins{id})
		} else {
			sh.store(size, id, now, v, &state, c, 0, pins{id})
		}
	}
	return true
}

// decideOne decides a [slotTake] as any request, over a state that t wrote, and returns the
// instant of the decision.
func (s *Store) decideOne(t *sluice.Term, req *sluice.Request, state *algo.State, now int64, d *sluice.Decision) (written, denies bool, at int64) {
	sc := s.takeScratch()
	it := &sc.items[0]
	it.Term, it.Cost, it.Held, it.Start, it.State, it.Others = t, req.Cost, req.Held, 0, *state, it.Others[:0]
	at = s.again(sc.items[:1], now)
	*d = algo.Decide(&oneTake, sc.items[:1], at)
	*state, written, denies = it.State, it.Written, !d.Allowed && it.Denied()
	s.done(sc, 1)
	return written, denies, at
}

// afterTake returns the class of a state of class c that a take has changed, as
// [place.classify] chooses it.
func (c class) afterTake(denies bool, d *sluice.Decision) class {
	switch {
	case denies:
		return denied
	case d.Allowed || c != denied:
		return used
	}
	return denied
}

// count decides a take of cost units under t, which is Counted, of a key that is not
// empty and has one state, which t wrote: [Store.single] for what most of these takes
// find, in the words of the slot. It reports false, having changed nothing but d, where
// there is more to look at. If no slot has a state of the key, not even one that is idle,
// pair is less than 0: what [table.find] has returned of that in which it would be.
func (sh *shard) count(t *sluice.Term, id uint64, cost, now int64, d *sluice.Decision) (done bool, pair int) {
	tab := &sh.tables[sizePair]
	i := tab.find(id)
	if i < 0 && sh.tables[sizeFixed].find(id) < 0 && sh.tables[sizeRing].find(id) < 0 {
		return false, i
	}
	if i < 0 || tab.idle(i) <= now {
		return false, 0
	}
	v := sh.registry.at(tab.by(i))
	w := tab.slots[i*tab.stride : i*tab.stride+3]
	if v == nil || v.term.ID != t.ID || w[1]&(more|reserved) != 0 {
		return false, 0
	}
	state := algo.State{Idle: tab.idle(i), A: int64(w[2] >> byHigh & pairMask), B: int64(w[2] >> (byHigh + pairBits))}
	written, ok := algo.CountTake(t, &state, now, cost, d)
	switch {
	case !ok || !tab.inRange(state.Idle) || state.A > pairMask:
		return false, 0
	case written:
		sh.soonest = min(sh.soonest, state.Idle)
		w[1] = packIdle(state.Idle, tab.epoch, w[1]&lowMask&^(classMask<<lowClass)) // used
		w[2] = uint64(state.B)<<(byHigh+pairBits) | uint64(state.A)<<byHigh | w[2]&(1<<byHigh-1)
	case !d.Allowed && tab.class(i)&shielded == 0:
		tab.setClass(i, denied)
	}
	return true, 0
}
