// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestWhatIsIdleStaysIdle: a request that has read the clock early and waited for the lock
// reads it again, so that it finds a state idle if an earlier decision did.
func TestWhatIsIdleStaysIdle(t *testing.T) {
	at := func(after time.Duration) time.Time {
		return time.UnixMicro(500_000 * time.Hour.Microseconds()).Add(after)
	}
	bucket, window, logged := "x: 1000/day burst 100", "x: 2/min fixed-window", "x: 2/min sliding-log"
	for _, c := range []struct {
		name    string
		limits  []string // by which two units each are taken
		between sluice.Op
		cost    int64
		of      int  // under which of them
		allowed bool // of two more units, under the last limit
	}{
		{"a word that a look drops", []string{window}, sluice.OpPeek, 1, 0, true},
		{"a form that another's take cuts off", []string{bucket, window}, sluice.OpTake, 1, 0, true},
		{"a slot that is reset", []string{logged}, sluice.OpReset, 0, 0, true},
		{"a slot that another's take overwrites", []string{"x: 2/min sliding-counter", logged}, sluice.OpTake, 2, 0, false},
	} {
		var early bool
		now := at(59 * time.Second)
		s := memstore.New(memstore.Options{MaxKeys: 100, Now: func() time.Time {
			if early { // once
				early = false
				return at(time.Minute - time.Microsecond)
			}
			return now
		}})
		var plans []*sluice.Plan
		for _, l := range c.limits {
			plans = append(plans, testkit.Plan(t, "s", l))
			testkit.Take(t, s, testkit.Request(plans[len(plans)-1], "k", 2))
		}
		now = at(2 * time.Minute)
		req := testkit.Request(plans[c.of], "k", c.cost)
		req.Op = c.between
		testkit.Take(t, s, req)
		early, now = true, now.Add(time.Microsecond)
		d := testkit.Take(t, s, testkit.Request(plans[len(plans)-1], "k", 2))
		if d.Allowed != c.allowed || d.At.Time().Before(at(2*time.Minute)) {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// TestIdleWordOfTwo: an idle balance is replaced by a new one if another limit of the name
// is registered, whose receipts may come, whichever limit used the balance before.
func TestIdleWordOfTwo(t *testing.T) {
	type step struct {
		after time.Duration
		of    int // which limit
		op    sluice.Op
		key   string
		cost  int64
	}
	const slow, fast, other = 0, 1, 2 // 24/day burst 3, 48/day burst 2, another scope's
	halves := func(n int) (list []step) {
		for range n {
			list = append(list, step{30 * time.Minute, slow, sluice.OpTake, "k", 1})
		}
		return list
	}
	for name, c := range map[string]struct {
		steps []step
		want  time.Duration // retry after, behind the last
	}{
		"idle when the other comes to be known": {[]step{
			{0, slow, sluice.OpTakeUpTo, "k", 3},
			{0, fast, sluice.OpCharge, "k", 3},
			{0, slow, sluice.OpTake, "k", 3}, // denied
			{0, slow, sluice.OpAdd, "k", 2},
			{73*time.Minute + 42*time.Second, slow, sluice.OpTake, "k", 1},
			// One unit of two is owed at 2/h, since 18:25.
			{18*time.Minute + 25*time.Second, fast, sluice.OpPeek, "k", 2},
		}, 11*time.Minute + 35*time.Second},
		"alive then, and where its array is replaced": {[]step{
			{0, slow, sluice.OpTake, "k", 1},
			{0, fast, sluice.OpPeek, "elsewhere", 1},
			{0, other, sluice.OpTake, "z", 1},
			{2 * time.Hour, slow, sluice.OpTake, "k", 3},
			{90 * time.Minute, fast, sluice.OpPeek, "k", 2}, // three of three drain at 2/h
		}, 0},
		"written since then": {append(append([]step{
			{0, slow, sluice.OpTake, "z", 1},
			{0, fast, sluice.OpTake, "z", 1},
			{0, other, sluice.OpTake, "z", 1},
		}, halves(8)...),
			step{5 * time.Hour, slow, sluice.OpTake, "k", 3},
			step{90 * time.Minute, fast, sluice.OpPeek, "k", 2}), 0},
	} {
		now := time.UnixMicro(500_000 * time.Hour.Microseconds())
		s := memstore.New(memstore.Options{MaxKeys: 1000, Now: func() time.Time { return now }})
		plans := []*sluice.Plan{testkit.Plan(t, "scope", "x: 24/day burst 3"), testkit.Plan(t, "scope", "x: 48/day burst 2"), testkit.Plan(t, "other", "x: 5/min")}
		var got sluice.Decision
		for _, x := range c.steps {
			now = now.Add(x.after)
			req := testkit.Request(plans[x.of], x.key, x.cost)
			req.Op = x.op
			got = testkit.Take(t, s, req)
		}
		if got.RetryAfter != c.want {
			t.Errorf("%s: retry after %v, want %v", name, got.RetryAfter, c.want)
		}
	}
}

// TestOneStateOfAKey: if a key's state grows out of its slot, an idle state in the smaller
// slot is not used in its place by a decision at an earlier instant.
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
				limiters = append(limiters, testkit.Limiter(t, s, "scope", l))
			}
			var state algo.State
			before := 0
			for i, x := range c.takes {
				now = now.Add(x.after)
				l := limiters[x.limit]
				req := testkit.Request(l.Plan(), "k", x.cost)
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
