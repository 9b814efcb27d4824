// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/stores"
)

var _ sluice.ExplainStore = (*Store)(nil)

// Explain implements [sluice.ExplainStore]. Unlike a peek it drops no idle state and
// registers no limit.
func (s *Store) Explain(_ context.Context, req sluice.Request) (sluice.Explanation, error) {
	if err := stores.ValidateExplain(&req); err != nil {
		return sluice.Explanation{}, err
	}
	now := s.clock.now()
	hashes := make([]uint64, req.Charges())
	order := make([]uint64, 0, len(hashes))
	for i := range hashes {
		c := req.Nth(i)
		hashes[i] = s.secret.Sum(c.Plan.ScopeID, c.Key)
		order = append(order, s.part(hashes[i]))
	}
	slices.Sort(order)
	var last *shard
	for _, part := range order {
		if last != nil && last.has(part) {
			continue
		}
		last = s.hold(part)
		defer last.mu.Unlock()
		now = s.fresh(last, now)
	}
	items := make([]algo.Item, 0, req.Limits())
	for i := range hashes {
		c := req.Nth(i)
		for j := range c.Plan.Len() {
			it := algo.Item{Term: c.Plan.Term(j), Cost: c.Cost, Counted: c.Counted}
			l := reader{store: s, location: location{shard: s.shards[s.part(hashes[i])].Load(), term: it.Term, hash: hashes[i]}, others: s.registry.unmet(&req, it.Term), now: now}
			l.load(&it)
			if h := l.shard.holds[l.rank(0)]; h != nil {
				h.Lost, it.Holds = !l.beside, h
			}
			items = append(items, it)
		}
	}
	return algo.Explain(&req, items, now), nil
}

// unmet returns the number of limits of the series of t that a request would register
// before t is decided: t, and others if the request has several plans of one scope.
func (r *registry) unmet(req *sluice.Request, t *sluice.Term) (n int64) {
	seen := map[uint64]bool{}
	count := func(o *sluice.Term) {
		if _, known := r.versions.Load(o.ID); !known && o.Series == t.Series && !seen[o.ID] {
			seen[o.ID] = true
			n++
		}
	}
	count(t)
	if !plansDiffer(req) {
		return n
	}
	for i := range req.Charges() {
		p := req.Nth(i).Plan
		for j := range p.Len() {
			count(p.Term(j))
		}
	}
	return n
}

// reader reads the states that [location.load] reads, and changes nothing.
type reader struct {
	location
	store  *Store
	others int64 // limits of the series that are not registered yet
	now    int64
}

func (l *reader) load(it *algo.Item) {
	t := it.Term
	withholds := t.InitialDeficit > 0 || t.PreFilled
	known, ok := l.store.registry.series.Load(t.Series)
	if !ok {
		if withholds {
			it.Start = max(l.now, 1)
		}
		if t.Burst > 0 && l.others > 1 {
			it.State.Since = l.now
		}
		return
	}
	ser := known.(*series)
	if it.Start = ser.start.Load(); withholds {
		it.Start = min(it.Start, max(l.now, 1))
	}
	states := l.words(ser)
	if len(states) == 0 {
		states = l.slots(ser)
	}
	it.Pick(states)
	alone := ser.count.Load()+l.others <= 1 && l.now >= ser.owing.Load()
	if t.Burst > 0 && it.State.Zero() && !alone {
		it.State.Since = l.now
	}
}

// words reads the word of the series.
func (l *reader) words(ser *series) []algo.State {
	v := ser.words.Load()
	if v == nil {
		return nil
	}
	a := l.shard.words.array.Load()
	if a == nil {
		return nil
	}
	i := a.find(l.wordOf(v.term.ID))
	if i < 0 {
		return nil
	}
	word := atomic.LoadUint64(a.word(i)) // never busy, under the lock
	s := a.stateOf(v.term, word)
	if s.By = v.term; word == 0 || s.Idle <= l.now {
		return nil
	}
	return []algo.State{s}
}

// slots reads the slots of the key in all forms.
func (l *reader) slots(ser *series) (states []algo.State) {
	for ser.sizes.Load() != 0 && len(states) < bounds.MaxForms {
		t, i := l.shard.slot(sizeOfForm(l.term), l.rank(len(states)), l.now)
		if i < 0 {
			return states
		}
		var s algo.State
		if l.shard.read(t, i, &s) == nil {
			return states // location.load drops such a state
		}
		l.beside = l.beside || len(states) == 0 && t.slots[i*t.stride+1]&more != 0
		if states = append(states, s); t.slots[i*t.stride+1]&more == 0 {
			return states
		}
	}
	return states
}

// ExplainSlot implements [sluice.ExplainStore].
func (s *Store) ExplainSlot(_ context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if err := stores.ValidateExplainSlot(&req); err != nil {
		return sluice.SlotDecision{}, err
	}
	now := s.clock.now()
	h := s.holders(&req)
	h.shard = s.hold(s.part(h.hash))
	defer h.shard.mu.Unlock()
	now = s.fresh(h.shard, now)
	var state algo.State
	t := &h.shard.tables[sizeRing]
	if i := h.shard.find(t, h.id, now); i >= 0 {
		h.shard.read(t, i, &state)
		state.Ring = slices.Clone(state.Ring)
	}
	d, _ := algo.DecideSlot(&req, h.owner, &state, now)
	return d, nil
}
