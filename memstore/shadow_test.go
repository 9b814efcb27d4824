// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/memstore"
)

// TestIdleWordOfTwo: a balance that was idle is a new one where another limit of the name is
// known by then, of which receipts may come, whichever limit had it before.
func TestIdleWordOfTwo(t *testing.T) {
	now := time.UnixMicro(500_000 * time.Hour.Microseconds())
	s := memstore.New(memstore.Options{MaxKeys: 1000, Now: func() time.Time { return now }})
	a, b := storekit.Plan(t, "scope", "x: 24/day burst 3"), storekit.Plan(t, "scope", "x: 48/day burst 2")
	var got sluice.Decision
	for _, x := range []struct {
		after time.Duration
		plan  *sluice.Plan
		op    sluice.Op
		cost  int64
	}{
		{0, a, sluice.OpTakeUpTo, 3},
		{0, b, sluice.OpCharge, 3},
		{0, a, sluice.OpTake, 3}, // denied
		{0, a, sluice.OpAdd, 2},
		{73*time.Minute + 42*time.Second, a, sluice.OpTake, 1},
		{18*time.Minute + 25*time.Second, b, sluice.OpPeek, 2},
	} {
		now = now.Add(x.after)
		req := storekit.Request(x.plan, "k", x.cost)
		req.Op = x.op
		got = storekit.Take(t, s, req)
	}
	// One unit of two is owed at 2/h, since 18:25.
	if want := 11*time.Minute + 35*time.Second; got.RetryAfter != want {
		t.Errorf("retry after %v, want %v", got.RetryAfter, want)
	}
}

// TestOneStateOfAKey: where a key's state grows out of its slot, what had been idle in the
// smaller one does not come to life beside it at an instant before, and decide in its place.
func TestOneStateOfAKey(t *testing.T) {
	type take struct {
		after time.Duration
		limit int
		cost  int64
	}
	for name, c := range map[string]struct {
		limits []string
		takes  []take
	}{
		"a count that needs more room, a microsecond before": {
			[]string{"x: 1GB/min sliding-counter conservative"},
			[]take{{0, 0, 1}, {2 * time.Minute, 0, 9e8}, {-time.Microsecond, 0, 9e8}, {time.Second, 0, 5e7}, {20 * time.Second, 0, 9e7}},
		},
		"another limit, before": {
			[]string{"x: 5/min burst 5 interval-refill", "x: 6/min burst 5 interval-refill"},
			[]take{{0, 0, 1}, {61 * time.Second, 1, 5}, {-5 * time.Second, 1, 4}, {0, 1, 1}},
		},
	} {
		for _, short := range []bool{true, false} {
			now := time.UnixMicro(500_000 * time.Hour.Microseconds())
			s := memstore.New(memstore.Options{MaxKeys: 1000, Now: func() time.Time { return now }})
			var limiters []*sluice.Limiter
			for _, l := range c.limits {
				limiters = append(limiters, storekit.Limiter(t, s, "scope", l))
			}
			var state algo.State
			before := 0
			for i, x := range c.takes {
				now = now.Add(x.after)
				l := limiters[x.limit]
				req := storekit.Request(l.Plan(), "k", x.cost)
				if x.limit != before {
					state.By = limiters[before].Plan().Term(0)
				}
				items := []algo.Item{{Term: l.Plan().Term(0), Cost: x.cost, State: state}}
				want := algo.Decide(&req, items, now.UnixMicro())
				state, before = items[0].State, x.limit
				ask := func() (sluice.Decision, error) { return s.Take(t.Context(), req) }
				if short {
					ask = func() (sluice.Decision, error) { return l.Take(t.Context(), "k", x.cost) }
				}
				got, err := ask()
				if err != nil || got.Allowed != want.Allowed {
					t.Errorf("%s, of a Limiter %v, take %d: got %+v, %v, want %+v", name, short, i+1, got, err, want)
				}
			}
		}
	}
}
