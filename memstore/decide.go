// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// place is where the state of one item is kept.
type place struct {
	shard *shard
	hash  uint64
	id    uint64
	form  algo.Form
	empty bool    // the key is
	live  bool    // there is a state
	class class   // that the state is stored with
	word  uint64  // what load returned
	old   *record // limit under which the state was found, nil if the item's own
	under uint64  // the word of that
}

// fewLimits is how many limits of a request are decided without allocating.
const fewLimits = 8

// scratch is room in which a shard's lock holder decides. A request and items
// of the caller's stack would not stay there, as algo calls its algorithms
// through an interface.
type scratch struct {
	req   sluice.Request
	items [fewLimits]algo.Item
}

// take returns the shard's scratch with the request in it.
func (sh *shard) take(req *sluice.Request) *scratch {
	if sh.scratch == nil {
		sh.scratch = new(scratch)
	}
	sh.scratch.req = *req
	return sh.scratch
}

// done lets go of what the caller's request refers to.
func (sc *scratch) done(n int) {
	sc.req = sluice.Request{}
	clear(sc.items[:n])
}

// decide decides a valid request into d, which saves copies on the shortest way.
func (s *Store) decide(req *sluice.Request, now int64, d *sluice.Decision) {
	if len(req.More) > 0 {
		*d = s.several(req, now)
		return
	}
	hash := s.secret.sum(req.Plan.ScopeID(), req.Key)
	sh := s.shardOf(hash)
	t := req.Plan.Term(0)
	plain := req.Plan.Len() == 1 && plainTake(req, t)
	if plain && sh.words.take(identity(hash, termMask(t.ID)), t, req.Cost, now, s.registry.generation.Load(), d) {
		return
	}
	*d = s.one(sh, req, hash, plain, now)
}

// one decides a request over one key under the lock of its shard.
func (s *Store) one(sh *shard, req *sluice.Request, hash uint64, plain bool, now int64) sluice.Decision {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.fresh(sh, now)
	if plain {
		if d, ok := s.newWord(sh, req, hash, now); ok {
			return d
		}
	}
	hashes := [sluice.MaxCharges]uint64{hash}
	return s.locked(sh, req, &hashes, now)
}

// fresh returns the instant at which to decide under the shard's lock. While
// the caller waited for it, another may have dropped states that were idle at a
// later instant but are not at now: then the clock is read again.
func (s *Store) fresh(sh *shard, now int64) int64 {
	if now < sh.latest {
		return max(now, s.clock.now())
	}
	return now
}

// plainTake reports whether [algo.WordTake] can decide req, of one limit.
func plainTake(req *sluice.Request, t *sluice.Term) bool {
	return req.Op == sluice.OpTake && req.MaxWait == 0 && t.Withheld == 0 && len(req.Outcomes) == 0 && algo.Shape(t) == algo.FormWord
}

// newWord decides a plain take of a key that has no state or, by the time of
// the lock, has one. It reports false, having done nothing, where the state may
// have to be carried over from another limit.
func (s *Store) newWord(sh *shard, req *sluice.Request, hash uint64, now int64) (sluice.Decision, bool) {
	t := req.Plan.Term(0)
	id := identity(hash, termMask(t.ID))
	if s.registry.changing() || len(s.registry.enter(req.Plan.Scope(), t, now)) > 1 {
		return sluice.Decision{}, false
	}
	var state algo.State
	word, _ := sh.load(algo.FormWord, id, now, &state)
	var d sluice.Decision
	idle, rem := algo.WordTake(t, state.Idle, state.A, now, req.Cost, &d)
	if idle == state.Idle && rem == state.A {
		sh.words.thaw(id, marked(word, &d))
		return d, true
	}
	c := classOf(word)
	if req.Key == "" && sh.keeps(c) {
		c = kept
	}
	state.Idle, state.A = idle, rem
	sh.store(algo.FormWord, id, now, &state, c.after(&d), nil)
	return d, true
}

// several decides a request over several keys. It locks their shards in order
// of index, each once, so that no two requests wait for each other.
func (s *Store) several(req *sluice.Request, now int64) sluice.Decision {
	var hashes, order [sluice.MaxCharges]uint64
	hashes[0] = s.secret.sum(req.Plan.ScopeID(), req.Key)
	for i := range req.More {
		c := &req.More[i]
		hashes[i+1] = s.secret.sum(c.Plan.ScopeID(), c.Key)
	}
	n := len(req.More) + 1
	for i, h := range hashes[:n] {
		order[i] = h >> s.shift
	}
	slices.Sort(order[:n])
	locked := slices.Compact(order[:n])
	for _, i := range locked {
		s.shards[i].mu.Lock()
	}
	defer func() {
		for _, i := range locked {
			s.shards[i].mu.Unlock()
		}
	}()
	for _, i := range locked {
		now = s.fresh(&s.shards[i], now)
	}
	return s.locked(&s.shards[locked[0]], req, &hashes, now)
}

// locked decides a request whose shards are locked, in the scratch of one of
// them: it loads all states, decides once and stores what has changed.
func (s *Store) locked(sh *shard, req *sluice.Request, hashes *[sluice.MaxCharges]uint64, now int64) sluice.Decision {
	var (
		placeRoom [fewLimits]place
		keepRoom  [fewLimits]uint64
	)
	n := req.Limits()
	sc := sh.take(req)
	defer sc.done(min(n, fewLimits))
	items, places, keep := sc.items[:], placeRoom[:], keepRoom[:]
	if n > fewLimits {
		items, places, keep = make([]algo.Item, n), make([]place, n), make([]uint64, n)
	}
	k := 0
	for i := range len(req.More) + 1 {
		c := &req.Charge
		if i > 0 {
			c = &req.More[i-1]
		}
		for j := range c.Plan.Len() {
			t := c.Plan.Term(j)
			items[k].Term, items[k].Cost = t, c.Cost
			// Not a literal: that is built of single bytes and then copied as
			// words, for which the processor waits.
			p := &places[k]
			p.shard, p.hash = s.shardOf(hashes[i]), hashes[i]
			p.id = identity(hashes[i], termMask(t.ID))
			p.form, p.empty = algo.Shape(t), c.Key == ""
			keep[k] = p.id
			s.load(c.Plan, &items[k], p, now)
			k++
		}
	}
	items, places, keep = items[:k], places[:k], keep[:k]
	d := algo.Decide(&sc.req, items, now)
	peek := req.Op == sluice.OpPeek
	for i := range places {
		if p := &places[i]; !peek && (p.empty || !d.Allowed || !takes(req.Op)) {
			p.classify(req.Op, d.Allowed, &items[i])
		}
	}
	for i := range places {
		places[i].release(!peek, items[i].Written)
	}
	for i := range places {
		if !peek {
			places[i].store(&items[i], now, keep)
		}
	}
	return d
}

// load reads the item's state: under its own limit or else, carried over, under
// a limit that this one has replaced.
func (s *Store) load(plan *sluice.Plan, it *algo.Item, p *place, now int64) {
	if p.word, p.live = p.shard.load(p.form, p.id, now, &it.State); p.live {
		if s.registry.changing() {
			s.registry.touch(it.Term, now)
		}
		return
	}
	recs := s.registry.enter(plan.Scope(), it.Term, now)
	if len(recs) == 1 {
		return
	}
	for _, rec := range recs {
		if rec.term.ID == it.Term.ID {
			continue
		}
		var old algo.State
		id := identity(p.hash, rec.mask)
		word, found := p.shard.load(rec.form, id, now, &old)
		if !found {
			if word != 0 { // idle, and must not come to life beside its successor
				p.shard.forget(rec.form, id)
			}
			continue
		}
		// A ring must not be shared: the old state's block is freed before the
		// new one is stored. And a peek must leave the old state as it is.
		old.Ring = slices.Clone(old.Ring)
		it.State = algo.Carry(rec.term, it.Term, &old, now)
		p.old, p.under, p.live = rec, word, true
		return
	}
}

// release gives back words that will not be stored. It drops the state that the
// item's own replaces. It comes before anything is stored, for then arrays may
// be replaced.
func (p *place) release(write, written bool) {
	if p.form == algo.FormWord && (!write || !written && p.old == nil) {
		p.shard.words.thaw(p.id, p.word)
	}
	if p.old == nil {
		return
	}
	id := identity(p.hash, p.old.mask)
	switch {
	case write:
		p.shard.forget(p.old.form, id)
	case p.old.form == algo.FormWord:
		p.shard.words.thaw(id, p.under)
	}
}

// store keeps the item's state if it has changed, or was carried over: a denial
// must not be decided twice by what an older limit counts, or its RetryAfter
// would not hold.
func (p *place) store(it *algo.Item, now int64, keep pins) {
	if it.Written || p.old != nil {
		p.shard.store(p.form, p.id, now, &it.State, p.class, keep)
	}
}
