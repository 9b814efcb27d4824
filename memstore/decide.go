// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// fewLimits is the number of limits that a request may have without allocating.
const fewLimits = 8

// scratch is the memory in which a request is decided. A variable of the caller would escape
// to the heap, as algo calls its algorithms through an interface.
type scratch struct {
	req       sluice.Request
	items     [fewLimits]algo.Item
	locations [fewLimits]location
	keep      [2*fewLimits + 1]uint64 // of the states and one slot
}

// takeScratch returns a scratch for the caller alone, which returns it with done.
func (s *Store) takeScratch() *scratch {
	if sc, ok := s.scratches.Get().(*scratch); ok {
		return sc
	}
	return new(scratch)
}

// done recycles a scratch with n used items, and clears its references to the request.
func (s *Store) done(sc *scratch, n int) {
	sc.req = sluice.Request{}
	for i := range n {
		it, p := &sc.items[i], &sc.locations[i]
		it.Term, it.State.By, it.State.Ring, it.Void = nil, nil, nil, 0
		clear(it.Others)
		p.shard, p.scope, p.term, p.version = nil, "", nil, nil
		p.beside, p.held = false, false
	}
	s.scratches.Put(sc)
}

// decide decides a valid request into d, without a copy of either.
func (s *Store) decide(req *sluice.Request, now int64, d *sluice.Decision) {
	if len(req.More) > 0 || req.Slot != nil {
		*d = s.several(req, now)
		return
	}
	hash := s.secret.Sum(req.Plan.ScopeID, req.Key)
	if req.Op == sluice.OpTake && req.MaxWait == 0 && req.Outcomes == nil && req.Hold == nil {
		*d = sluice.Decision{}
		s.take(req.Plan, req.Key, req.Cost, hash, now, d)
		return
	}
	sh := s.lock(s.part(hash))
	defer sh.mu.Unlock()
	*d = s.oneLocked(req, hash, s.fresh(sh, now))
}

// oneLocked is [Store.locked] for one key. It is a separate function so that takes
// without an array of hashes need not clear one.
func (s *Store) oneLocked(req *sluice.Request, hash uint64, now int64) sluice.Decision {
	hashes := [sluice.MaxCharges]uint64{hash}
	return s.locked(req, &hashes, nil, now)
}

// fresh returns the instant of a decision under the shard's lock. While the caller waited for
// the lock, another caller may have dropped states that were idle at a later instant and are
// not idle at now. Then fresh reads the clock again.
func (s *Store) fresh(sh *shard, now int64) int64 {
	if now < sh.latest {
		return max(now, s.clock.now())
	}
	return now
}

// again returns the instant of a decision over states. If one of them is too far ahead of now,
// it reads the clock again: another caller may have read the clock later and decided first. A
// state that is still ahead is from a snapshot, or from before the clock of Options.Now went back.
func (s *Store) again(items []algo.Item, now int64) int64 {
	for i := range items {
		if items[i].Ahead(now) {
			return max(now, s.clock.now())
		}
	}
	return now
}

// takeWord decides a take under a limit whose states are words, for a key that has no state
// or a word. It does nothing and reports false if the key may have a state in a slot or a
// state that another limit wrote.
func (s *Store) takeWord(sh *shard, p *sluice.Plan, key string, cost int64, hash uint64, now int64, d *sluice.Decision) bool {
	t := p.Term(0)
	v := s.registry.enter(p.Scope(), t, now)
	if ser := v.series; ser.words.Load() != v || ser.sizes.Load() != 0 || !ser.alone(now) {
		return false
	}
	if a := sh.words.array.Load(); a != nil && a.generation != s.registry.generation.Load() {
		sh.rebuildWords(now, now) // else each take of an idle key would come here
	}
	id := identity(hash, termMask(t.ID))
	var state algo.State
	word, live := sh.word(t, id, now, &state)
	switch {
	case !live:
		state = algo.State{}
	case state.Idle-now > t.Horizon: // see again
		now = max(now, s.clock.now())
	}
	idle, rem := algo.WordTake(t, state.Idle, state.A, now, cost, d)
	if idle == state.Idle && rem == state.A {
		sh.words.unlock(id, marked(word, d))
		return true
	}
	c := classOf(word)
	if key == "" && sh.keeps(c) {
		c = kept
	}
	sh.storeWord(id, now, &algo.State{Idle: idle, A: rem}, c.after(d), nil)
	return true
}

// several decides a request over several keys, or with a slot. It locks each of their
// shards once, in the order of their parts, so that requests cannot deadlock.
func (s *Store) several(req *sluice.Request, now int64) sluice.Decision {
	var hashes [sluice.MaxCharges]uint64
	var order [sluice.MaxCharges + 1]uint64 // of the charges and the slot
	n := req.Charges()
	for i := range n {
		c := req.Nth(i)
		hashes[i] = s.secret.Sum(c.Plan.ScopeID, c.Key)
		order[i] = s.part(hashes[i])
	}
	var slot *holders
	if req.Slot != nil {
		h := s.holders(&req.Slot.SlotRequest)
		slot, order[n] = &h, s.part(h.hash)
		n++
	}
	slices.Sort(order[:n])
	var room [sluice.MaxCharges + 1]*shard
	locked := room[:0]
	for _, part := range order[:n] {
		if k := len(locked); k == 0 || !locked[k-1].has(part) {
			locked = append(locked, s.lock(part))
		}
	}
	defer func() {
		for _, sh := range locked {
			sh.mu.Unlock()
		}
	}()
	for _, sh := range locked {
		now = s.fresh(sh, now)
	}
	if slot != nil {
		slot.shard = s.shards[s.part(slot.hash)].Load()
	}
	if slot != nil && !slot.allow(req, now) {
		return algo.DenySlot(req, now)
	}
	return s.locked(req, &hashes, slot, now)
}

// locked decides a request whose shards are locked: it loads all states, decides
// once and stores the changed states. slot is the request's slot, which must be free,
// or nil.
func (s *Store) locked(req *sluice.Request, hashes *[sluice.MaxCharges]uint64, slot *holders, now int64) sluice.Decision {
	n := req.Limits()
	sc := s.takeScratch()
	sc.req = *req
	defer s.done(sc, min(n, fewLimits))
	items, locations := sc.items[:], sc.locations[:]
	if n > fewLimits {
		items, locations = make([]algo.Item, n), make([]location, n)
	}
	s.registry.meet(req, now)
	k, held := 0, false
	for i := range req.Charges() {
		c := req.Nth(i)
		for j := range c.Plan.Len() {
			it := &items[k]
			it.Term, it.Cost, it.Counted = c.Plan.Term(j), c.Cost, c.Counted
			p := &locations[k]
			p.shard, p.scope, p.term, p.hash, p.empty = s.shards[s.part(hashes[i])].Load(), c.Plan.Scope(), it.Term, hashes[i], c.Key == ""
			p.version, p.class, p.word, p.ranks = nil, used, 0, 0
			p.load(it, now)
			held = p.withHolds(req, it, now) || held
			k++
		}
	}
	items, locations = items[:k], locations[:k]
	now = s.again(items, now)
	s.voids.load(req, hashes, items)
	d := algo.Decide(&sc.req, items, now)
	s.voids.keep(req, hashes, items, now)
	if req.Op == sluice.OpPeek && !held {
		for i := range locations {
			locations[i].release()
		}
		if slot != nil && d.Allowed {
			req.Slot.Decision = slot.decide(sluice.SlotPeek, now, nil)
		}
		return d
	}
	keep := pins(sc.keep[:0])
	if slot != nil {
		keep = append(keep, slot.id)
	}
	for i := range locations {
		p := &locations[i]
		if held {
			p.keepHolds(&items[i])
		}
		if req.Op != sluice.OpPeek {
			p.classify(req.Op, d.Allowed || d.Hold != 0, &items[i]) // a hold is not denied by a limit
		}
		if items[i].Written {
			keep = p.pin(keep, len(items[i].Others))
		} else {
			p.release() // before a store, which may replace arrays
		}
	}
	for i := range locations {
		if items[i].Written {
			locations[i].store(&items[i], now, keep)
		}
	}
	if slot != nil && d.Allowed {
		req.Slot.Decision = slot.decide(sluice.SlotAcquire, now, keep)
	}
	return d
}
