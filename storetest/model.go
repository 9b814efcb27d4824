// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// model is the simplest store: a map of states around package algo.
//
// It follows the rules that algo leaves to stores. States belong to scope, key and the
// limit's name: one for each form, whichever limit of that name wrote it. A rule
// starts when the store first meets a limit of its scope and name. A request
// meets all its limits before any of its charges is decided.
type model struct {
	states  map[place][]algo.State
	rules   map[uint64]*rule
	holders map[holding]*algo.State
	voids   map[place]int64 // by scope and key
	holds   map[place]*algo.Holds
}

type place struct {
	series uint64
	key    string
}

// rule is the knowledge of a scope and name.
type rule struct {
	start  int64
	limits map[uint64]bool // IDs of those that were met
}

func newModel() *model {
	return &model{states: make(map[place][]algo.State), rules: make(map[uint64]*rule), holders: make(map[holding]*algo.State), voids: make(map[place]int64), holds: make(map[place]*algo.Holds)}
}

// decide returns the decision that a store must make on req at instant now. It fills
// req.Outcomes and req.Slot.
func (m *model) decide(req sluice.Request, now int64) sluice.Decision {
	if req.Slot != nil && !m.slotIsFree(&req, now) {
		return algo.DenySlot(&req, now)
	}
	d := m.units(req, now)
	if req.Slot != nil && d.Allowed {
		req.Slot.Decision = m.slot(req.Slot.SlotRequest, now)
	}
	return d
}

// units decides req as if it had no slot.
func (m *model) units(req sluice.Request, now int64) sluice.Decision {
	m.meet(req, now)
	var places []place
	var items []algo.Item
	for i := range req.Charges() {
		c := req.Nth(i)
		for j := range c.Plan.Len() {
			it := algo.Item{Term: c.Plan.Term(j), Cost: c.Cost, Counted: c.Counted, Void: m.voids[place{c.Plan.ScopeID, c.Key}]}
			at := place{it.Term.Series, c.Key}
			m.load(at, &it, now)
			if h := m.holds[at]; h != nil || req.Hold != nil {
				if h == nil {
					h = &algo.Holds{All: true}
					m.holds[at] = h
				}
				h.Lost = len(it.Keep(nil)) == 0
				it.Holds = h
			}
			places, items = append(places, at), append(items, it)
		}
	}
	d := algo.Decide(&req, items, now)
	for i := range items { // a peek ends holds
		if items[i].Written {
			m.states[places[i]] = items[i].Keep(nil)
		}
	}
	for i, k := 0, 0; i < req.Charges(); i++ {
		of := place{req.Nth(i).Plan.ScopeID, req.Nth(i).Key}
		for range req.Nth(i).Plan.Len() {
			m.voids[of] = max(m.voids[of], items[k].Void)
			k++
		}
	}
	return d
}

// meet records the limits of a request.
func (m *model) meet(req sluice.Request, now int64) {
	for i := range req.Charges() {
		plan := req.Nth(i).Plan
		for j := range plan.Len() {
			t := plan.Term(j)
			r := m.rules[t.Series]
			if r == nil {
				r = &rule{start: max(now, 1), limits: make(map[uint64]bool)}
				m.rules[t.Series] = r
			}
			r.limits[t.ID] = true
			if t.InitialDeficit > 0 || t.PreFilled {
				r.start = min(r.start, max(now, 1))
			}
		}
	}
}

// load gives the item copies of the live states at a place.
func (m *model) load(at place, it *algo.Item, now int64) {
	r := m.rules[at.series]
	it.Start = r.start
	var live []algo.State
	for _, s := range m.states[at] {
		if s.Idle > now {
			s.Ring = slices.Clone(s.Ring)
			live = append(live, s)
		}
	}
	it.Pick(live)
	if it.Term.Burst > 0 && it.State.Zero() && len(r.limits) > 1 {
		it.State.Since = now
	}
}

// instant returns when a decision was made: a decision's Due is its instant
// plus its Delay.
func instant(d sluice.Decision) int64 { return int64(d.Due) - d.Delay.Microseconds() }

// checker sends requests to a store and to the model, and compares the decisions.
type checker struct {
	h      Harness
	clock  *hand
	model  *model
	latest int64 // instant of a decision of the store

	asked time.Time // when the store was last asked
	late  bool      // keys of a request may have been decided at several instants
}

func newChecker(h Harness, clock *hand) *checker {
	return &checker{h: h, clock: clock, model: newModel()}
}

// take decides req and fails the test if the store does not agree.
func (c *checker) take(t *testing.T, req sluice.Request) sluice.Decision {
	t.Helper()
	req.Outcomes = new(make(sluice.Outcomes, req.Limits()))
	for i := range *req.Outcomes {
		(*req.Outcomes)[i].Remaining = -1 // the store must fill it
	}
	c.asked = time.Now()
	d, err := c.h.Store.Take(t.Context(), req)
	if err != nil {
		t.Fatalf("%s: got error %v, want a decision", describe(req), err)
	}
	c.check(t, req, d)
	return d
}

// check compares the store's answer to req, Outcomes included, with the model's.
func (c *checker) check(t *testing.T, req sluice.Request, got sluice.Decision) {
	t.Helper()
	c.late = c.late || c.h.Together > 0 && req.Charges() > 1 && time.Since(c.asked) >= c.h.Together
	now := c.clock.Micros()
	if c.h.OwnClock {
		now = instant(got)
		c.latest = now
	}
	outcomes := *req.Outcomes
	wanted := make(sluice.Outcomes, len(outcomes))
	req.Outcomes = &wanted
	slot := req.Slot
	if slot != nil {
		req.Slot = &sluice.Slot{SlotRequest: slot.SlotRequest}
	}
	want := c.model.decide(req, now)
	if slot != nil {
		c.checkSlot(t, req, slot.Decision, &got, want)
	}
	if got != want {
		c.differs(t, "%s at %d:\n got %+v\nwant %+v", describe(req), now, got, want)
	}
	if !slices.Equal(outcomes, wanted) {
		c.differs(t, "%s at %d: outcomes\n got %+v\nwant %+v", describe(req), now, outcomes, wanted)
	}
}

// differs ends a run in which the store and the model do not agree.
func (c *checker) differs(t *testing.T, format string, args ...any) {
	t.Helper()
	if c.late {
		t.Skipf("a request of several keys took longer than "+c.h.Together.String()+": "+format, args...)
	}
	t.Fatalf(format, args...)
}
