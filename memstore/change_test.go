// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/memstore"
)

// carried returns the decision of a take under the plan to, at now, by a key
// that has just spent cost under the plan from.
func carried(from, to *sluice.Plan, cost, at, now int64) sluice.Decision {
	old := []algo.Item{{Term: from.Term(0), Cost: cost}}
	req := charge(from, "k", cost)
	algo.Decide(&req, old, at)
	item := []algo.Item{{Term: to.Term(0), Cost: 1}}
	if s := &old[0].State; s.Idle > now {
		item[0].State = algo.Carry(from.Term(0), to.Term(0), s, now)
	}
	req = charge(to, "k", 1)
	return algo.Decide(&req, item, now)
}

func TestChangedLimitCarriesOver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, from, to string
		cost           int64
		wait           time.Duration
	}{
		{"word, larger", "n: 10/min", "n: 20/min", 10, time.Second},
		{"word, smaller", "n: 20/min", "n: 10/min", 15, time.Second},
		{"word to pair", "n: 10/min", "n: 10/min fixed-window", 7, time.Second},
		{"word to ring", "n: 10/min", "n: 10/min sliding-log", 7, time.Second},
		{"ring to word", "n: 10/min sliding-log", "n: 10/min", 7, time.Second},
		{"ring to ring", "n: 10/min sliding-log", "n: 12/min sliding-log", 10, 30 * time.Second},
		{"ring to another ring", "n: 60/min sliding-log", "n: 60/min sliding-counter sub-windows 6", 30, time.Second},
		{"duo to trio", "n: 10/min sliding-counter", "n: 10000000000/min sliding-counter", 10, time.Second},
		{"default name, quota only", "10/min fixed-window", "5/min fixed-window", 4, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from, to := plan(t, "s", tt.from), plan(t, "s", tt.to)
			for _, way := range []struct {
				name     string
				from, to *sluice.Plan
			}{{"there", from, to}, {"back", to, from}} {
				t.Run(way.name, func(t *testing.T) {
					clock := newHand()
					s := memstore.New(memstore.Options{Now: clock.now})
					at := clock.micros.Load()
					if d := take(t, s, charge(way.from, "k", tt.cost)); !d.Allowed {
						tt.cost = 5
						take(t, s, charge(way.from, "k", tt.cost))
					}
					clock.advance(tt.wait)
					now := clock.micros.Load()
					peek := charge(way.to, "k", 1)
					peek.Op = sluice.OpPeek
					wantPeek := carried(way.from, way.to, tt.cost, at, now)
					if got := take(t, s, peek); got.Allowed != wantPeek.Allowed || got.RetryAfter != wantPeek.RetryAfter {
						t.Errorf("peek: got %+v, want %+v", got, wantPeek)
					}
					got, want := take(t, s, charge(way.to, "k", 1)), carried(way.from, way.to, tt.cost, at, now)
					if got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					if n := s.Stats().States; n != 1 {
						t.Errorf("got %d states, want 1: the old one goes when the new one is written", n)
					}
				})
			}
		})
	}
}

// TestOldAndNewPlanInTurn keeps both plans in use: whatever the order, the key
// has one state, which is carried over each time.
func TestOldAndNewPlanInTurn(t *testing.T) {
	t.Parallel()
	clock := newHand()
	s := memstore.New(memstore.Options{Now: clock.now})
	plans := []*sluice.Plan{plan(t, "s", "n: 10/min sliding-log"), plan(t, "s", "n: 14/min"), plan(t, "s", "n: 12/min sliding-counter")}
	var state algo.State
	var under *sluice.Term
	for i := range 300 {
		now := clock.micros.Load()
		p := plans[i*i%7%3]
		term := p.Term(0)
		if under != nil && under != term && state.Idle > now {
			state = algo.Carry(under, term, &state, now)
		}
		under = term
		req := charge(p, "k", 1)
		item := []algo.Item{{Term: term, Cost: 1, State: state}}
		want := algo.Decide(&req, item, now)
		state = item[0].State
		if got := take(t, s, req); got != want {
			t.Fatalf("take %d: got %+v, want %+v", i, got, want)
		}
		if n := s.Stats().States; n != 1 {
			t.Fatalf("take %d: got %d states, want 1", i, n)
		}
		clock.advance(700 * time.Millisecond)
	}
}

// TestRetryAfterHoldsAcrossChange: what was denied until an instant is
// allowed at it, although the state came from another limit.
func TestRetryAfterHoldsAcrossChange(t *testing.T) {
	t.Parallel()
	clock := newHand()
	s := memstore.New(memstore.Options{Now: clock.now})
	take(t, s, charge(plan(t, "s", "n: 100/h sliding-log"), "k", 100))
	clock.advance(10 * time.Minute)
	to := plan(t, "s", "n: 100/h")
	d := take(t, s, charge(to, "k", 1))
	if d.Allowed || d.RetryAfter != 36*time.Second {
		t.Fatalf("got %+v, want denied for 36 s", d)
	}
	clock.advance(d.RetryAfter)
	if d := take(t, s, charge(to, "k", 1)); !d.Allowed {
		t.Errorf("got %+v, want allowed", d)
	}
}

// TestManyChanges changes a limit more often than the store remembers.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	clock := newHand()
	s := memstore.New(memstore.Options{Now: clock.now})
	for i := range 50 {
		p := plan(t, "s", fmt.Sprintf("n: %d/min sliding-log", 100+i))
		if d := take(t, s, charge(p, "k", 1)); d.Remaining != 99 {
			t.Fatalf("change %d: got %d remaining, want 99: one more unit counts, and the quota has one more", i, d.Remaining)
		}
		clock.advance(time.Second)
	}
}
