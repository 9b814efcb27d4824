// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// model is a store as simple as can be: a map of states around package algo.
//
// It fixes what algo leaves to stores. A state belongs to scope, key and the
// limit's name. If the limit has changed since it was written, any request but
// a peek first turns it into what [algo.Carry] says it is worth now.
type model struct {
	states map[place]kept
}

type place struct {
	series uint64
	key    string
}

type kept struct {
	term  *sluice.Term
	state algo.State
}

func newModel() *model { return &model{states: make(map[place]kept)} }

// decide returns what req has to come to at instant now. It fills
// req.Outcomes.
func (m *model) decide(req sluice.Request, now int64) sluice.Decision {
	var places []place
	var items []algo.Item
	var moved []bool
	for i := range len(req.More) + 1 {
		c := req.Charge
		if i > 0 {
			c = req.More[i-1]
		}
		for j := range c.Plan.Len() {
			term := c.Plan.Term(j)
			at := place{term.Series, c.Key}
			state, carried := m.load(at, term, now)
			places = append(places, at)
			items = append(items, algo.Item{Term: term, Cost: c.Cost, State: state})
			moved = append(moved, carried)
		}
	}
	d := algo.Decide(&req, items, now)
	if req.Op == sluice.OpPeek {
		return d
	}
	for i, it := range items {
		switch {
		case !it.Written && !moved[i]:
		case it.State.Zero():
			delete(m.states, places[i])
		default:
			m.states[places[i]] = kept{it.Term, it.State}
		}
	}
	return d
}

// load returns a copy of a state, and whether it was written under another limit.
func (m *model) load(at place, term *sluice.Term, now int64) (state algo.State, carried bool) {
	k, ok := m.states[at]
	if !ok || k.state.Idle <= now {
		return algo.State{}, false
	}
	state = k.state
	state.Ring = slices.Clone(state.Ring)
	if k.term.ID == term.ID {
		return state, false
	}
	return algo.Carry(k.term, term, &state, now), true
}

// instant returns when a decision was made: a decision's Due is its instant
// plus its Delay.
func instant(d sluice.Decision) int64 { return int64(d.Due) - d.Delay.Microseconds() }

// checker puts requests to a store and to the model.
type checker struct {
	h     Harness
	clock *hand
	model *model
}

func newChecker(h Harness, clock *hand) *checker {
	return &checker{h: h, clock: clock, model: newModel()}
}

// take decides req and fails the test if the store does not agree.
func (c *checker) take(t *testing.T, req sluice.Request) sluice.Decision {
	t.Helper()
	req.Outcomes = make([]sluice.Outcome, req.Limits())
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
	now := c.clock.micros.Load()
	if c.h.OwnClock {
		now = instant(got)
	}
	outcomes := req.Outcomes
	req.Outcomes = make([]sluice.Outcome, len(outcomes))
	want := c.model.decide(req, now)
	if got != want {
		t.Fatalf("%s at %d:\n got %+v\nwant %+v", describe(req), now, got, want)
	}
	if !slices.Equal(outcomes, req.Outcomes) {
		t.Fatalf("%s at %d: outcomes\n got %+v\nwant %+v", describe(req), now, outcomes, req.Outcomes)
	}
}
