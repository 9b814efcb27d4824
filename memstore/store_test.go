// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func TestTakeBatch(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{Now: testkit.NewClock().Now})
	p := testkit.Plan(t, "s", "2/min")
	reqs := []sluice.Request{testkit.Request(p, "a", 1), testkit.Request(p, "a", -1), testkit.Request(p, "a", 1), testkit.Request(p, "a", 1), testkit.Request(p, "b", 2)}
	out := make([]sluice.Result, len(reqs))
	if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
		t.Fatal(err)
	}
	want := []bool{true, false, true, false, true}
	for i, r := range out {
		if got := r.Decision.Allowed; got != want[i] || (r.Err != nil) != (i == 1) {
			t.Errorf("request %d: got %+v, want allowed %t", i, r, want[i])
		}
	}
	if err := s.TakeBatch(t.Context(), reqs, out[1:]); err == nil {
		t.Error("got no error for too few results")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.TakeBatch(ended, reqs, out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestIdleStatesMakeRoom checks that a key without debt keeps no room: a store of one key
// serves any number of keys, one after the other.
func TestIdleStatesMakeRoom(t *testing.T) {
	t.Parallel()
	for _, l := range limits {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			s := memstore.New(memstore.Options{MaxKeys: 1, Now: clock.Now})
			p := testkit.Plan(t, "s", l.text)
			for i := range 100 {
				d := testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1))
				if want := i > 0 || l.name != "duo pre-filled"; d.Allowed != want {
					t.Fatalf("key %d: got allowed %t, want %t", i, d.Allowed, want)
				}
				clock.Advance(d.ResetAfter + 2*p.Term(0).Window)
			}
			if got := s.Stats(); got.States > 1 || got.Evicted != 0 {
				t.Errorf("got %+v, want at most 1 state and no eviction", got)
			}
		})
	}
}

func TestResetAndRefundForget(t *testing.T) {
	t.Parallel()
	for _, op := range []sluice.Op{sluice.OpReset, sluice.OpRefund} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			s := memstore.New(memstore.Options{Now: testkit.NewClock().Now})
			p := testkit.Plan(t, "s", "5/min", "10/h fixed-window", "3/min sliding-log", "6/min sliding-counter")
			d := testkit.Take(t, s, testkit.Request(p, "k", 3))
			if got := s.Stats().States; got != 4 {
				t.Fatalf("got %d states after a take, want 4", got)
			}
			req := testkit.Request(p, "k", 3)
			req.Op, req.At = op, d.At
			testkit.Take(t, s, req)
			if got := s.Stats().States; got != 0 {
				t.Errorf("got %d states after %v, want none", got, op)
			}
		})
	}
}

// replaced is a Store with the Take of another Store.
type replaced struct {
	*memstore.Store
	asked int
}

func (r *replaced) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	r.asked++
	return r.Store.Take(ctx, req)
}

// TestLimiterAsksTheStoreAround: a Limiter on a Store that embeds this one and has its own
// Take calls that, not the shorter path of the embedded Store.
func TestLimiterAsksTheStoreAround(t *testing.T) {
	t.Parallel()
	s := &replaced{Store: memstore.New(memstore.Options{})}
	lim, err := sluice.New(s, "s", sluice.PerMinute(2))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if d, err := lim.Take(t.Context(), "k", 1); err != nil || d.Allowed != (n < 2) || s.asked != n+1 {
			t.Errorf("take %d: got %+v, %v, and the store was asked %d times", n+1, d, err, s.asked)
		}
	}
}

// TestResultsAreWrittenWhole: a batch overwrites all fields of the results of the last one.
func TestResultsAreWrittenWhole(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{Now: testkit.NewClock().Now})
	p := testkit.Plan(t, "s", "5/min")
	out := make([]sluice.Result, 1)
	for n := range 7 {
		req := testkit.Request(p, "k", 1)
		peek := req
		peek.Op = sluice.OpPeek
		want := testkit.Take(t, s, peek) // by code that writes all fields
		want.Spent = 0
		out[0].Decision = sluice.Decision{Allowed: true, TooLarge: true, Degraded: true, Binding: 3, Spent: 9, Remaining: 9, RetryAfter: 9, ResetAfter: 9, Delay: 9, At: 9, Due: 9}
		if err := s.TakeBatch(t.Context(), []sluice.Request{req}, out); err != nil {
			t.Fatal(err)
		}
		got := out[0].Decision
		if got.Allowed != (n < 5) || got.Allowed != want.Allowed || got.TooLarge || got.Degraded || got.Binding != 0 || got.Delay != 0 || got.At != want.At || got.Due != want.Due || got.RetryAfter != want.RetryAfter {
			t.Errorf("take %d: got %+v, peeked %+v", n+1, got, want)
		}
	}
}
