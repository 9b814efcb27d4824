// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/stores"
)

var _ sluice.ExplainStore = (*Store)(nil)

// Explain implements [sluice.ExplainStore]. It reads the values of all keys in one round
// trip, or in one for each key of a Cluster, and takes one more if it does not know the
// start of a rule. It blocks no longer than ctx or Options.Timeout.
func (s *Store) Explain(ctx context.Context, req sluice.Request) (sluice.Explanation, error) {
	if err := stores.ValidateExplain(&req); err != nil {
		return sluice.Explanation{}, err
	}
	if err := s.admit(ctx); err != nil {
		return sluice.Explanation{}, wrap(&req, err)
	}
	defer s.pending.done()
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	e, err := s.explain(ctx, &req)
	if err != nil {
		return sluice.Explanation{}, wrap(&req, err)
	}
	return e, nil
}

func (s *Store) explain(ctx context.Context, req *sluice.Request) (sluice.Explanation, error) {
	items := s.lookedAt(req)
	now, found, err := s.lookAt(ctx, items)
	if err != nil {
		return sluice.Explanation{}, err
	}
	list := make([]algo.Item, len(items))
	for i := range items {
		it := &items[i]
		states, err := s.parseValue(it, found[i])
		if err != nil {
			return sluice.Explanation{}, err
		}
		charge := req.Nth(it.charge)
		list[i] = it.decided(states, now)
		list[i].Cost, list[i].Counted = charge.Cost, charge.Counted
		if list[i].Holds, err = s.seeHolds(ctx, it, found[i], now); err != nil {
			return sluice.Explanation{}, err
		}
		if h := list[i].Holds; h != nil {
			h.Lost = lost(states, now)
		}
		if withholds(it.term) {
			if list[i].Start, err = s.seeStart(ctx, it, now); err != nil {
				return sluice.Explanation{}, err
			}
		}
	}
	return algo.Explain(req, list, now), nil
}

// lookedAt returns the limits of a request. Unlike [Store.prepared] it does not record
// that they were met.
func (s *Store) lookedAt(req *sluice.Request) (items []item) {
	for n := range req.Charges() {
		c := req.Nth(n)
		tag := s.keyer.tag(c.Plan.Scope(), c.Key)
		for i := range c.Plan.Len() {
			t := c.Plan.Term(i)
			name := nameOf(t.Name)
			items = append(items, item{
				preparedLimit: &preparedLimit{
					term: t, scope: c.Plan.Scope(), name: name, head: headOf(t), series: s.series.seen(t),
				},
				charge: n, key: tag + name, metOthers: s.series.wouldMeetOthers(req, t),
			})
		}
	}
	return items
}

// seen returns the series of t, or an empty one if t is new.
func (a *allSeries) seen(t *sluice.Term) *series {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.known[t.Series]; r != nil {
		return r
	}
	return &series{first: t.ID}
}

// wouldMeetOthers reports whether a decision of req would find several limits met in the
// series of t.
func (a *allSeries) wouldMeetOthers(req *sluice.Request, t *sluice.Term) bool {
	r := a.seen(t)
	if r.metOthers.Load() || r.first != t.ID {
		return true
	}
	for n := range req.Charges() {
		p := req.Nth(n).Plan
		for i := range p.Len() {
			if o := p.Term(i); o.Series == t.Series && o.ID != r.first {
				return true
			}
		}
	}
	return false
}

// lookAt returns the values of all keys and the server's instant, the latest one for keys
// in several slots of a Cluster.
func (s *Store) lookAt(ctx context.Context, items []item) (now int64, found []string, err error) {
	for first := 0; first < len(items); {
		var keys []string
		next := first
		for ; next < len(items) && (!s.cluster || items[next].charge == items[first].charge); next++ {
			keys = append(keys, items[next].key)
		}
		c := call{items: items[first:next]}
		_, values, err := s.exchange(ctx, &c, keys, []string{"1"})
		if err != nil {
			return 0, nil, err
		}
		now, found, first = max(now, c.now), append(found, values...), next
	}
	return now, found, nil
}

// seeHolds returns the holds beside a value, nil if none is open.
func (s *Store) seeHolds(ctx context.Context, it *item, value string, now int64) (*algo.Holds, error) {
	_, next, err := splitNext(value)
	if next == 0 || err != nil {
		return nil, err
	}
	c := call{now: now}
	_, found, err := s.exchange(ctx, &c, []string{it.keyHolds()}, []string{"1", fieldNumbers})
	if err != nil {
		return nil, err
	}
	h := &holds{raw: make(map[string]string)}
	if err := h.read(map[string]string{fieldNumbers: found[0]}); err != nil {
		return nil, err
	}
	return &h.Holds, s.readWhole(ctx, it, h)
}

// seeStart returns the start of the rule of a limit that [Store.startOf] would record. It
// records nothing.
func (s *Store) seeStart(ctx context.Context, it *item, now int64) (int64, error) {
	r := it.series
	if start := r.start.Load(); start > 0 && start <= now && !r.stale(s.clock()) {
		return start, nil
	}
	start := max(now, 1)
	for _, seen := range []int64{r.start.Load(), r.met.Load()} {
		if seen > 0 {
			start = min(start, seen)
		}
	}
	var c call
	_, found, err := s.exchange(ctx, &c, []string{s.keyer.start(it.scope, it.term.Name)}, []string{"1"})
	if err != nil || found[0] == "" {
		return start, err
	}
	recorded, err := strconv.ParseInt(found[0], 10, 64)
	if err != nil {
		return 0, errState
	}
	return min(max(recorded, 1), start), nil
}

// ExplainSlot implements [sluice.ExplainStore]. It blocks for one round trip, no longer
// than ctx or Options.Timeout.
func (s *Store) ExplainSlot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if err := stores.ValidateExplainSlot(&req); err != nil {
		return sluice.SlotDecision{}, err
	}
	if err := s.admit(ctx); err != nil {
		return sluice.SlotDecision{}, wrapSlot(&req, err)
	}
	defer s.pending.done()
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	var c call
	_, found, err := s.exchange(ctx, &c, []string{s.keyer.slots(req.Scope, req.Key, req.Limit.Name)}, []string{"1"})
	if err != nil {
		return sluice.SlotDecision{}, wrapSlot(&req, err)
	}
	state, mine, err := parseLeases(found[0], s.keyer.owner(req.Owner))
	if err != nil {
		return sluice.SlotDecision{}, fmt.Errorf("redisstore: slots %q: %w", req.Scope, err)
	}
	d, _ := algo.DecideSlot(&req, mine, &state, c.now)
	return d, nil
}
