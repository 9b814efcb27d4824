// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// askers are requests on an evaluator whose rule counts those answered 401.
type askers struct {
	t         *testing.T
	evaluator *evaluate.Evaluator
	store     *testkit.Store
}

func newAskers(t *testing.T, limits ...string) *askers {
	t.Helper()
	r := one("api", by(policy.Header("X-User")), limits...)
	r.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	store := &testkit.Store{Store: memstore.New(memstore.Options{Now: func() time.Time { return now }})}
	return &askers{t, newEvaluator(t, evaluate.Options{Store: store, Rules: []policy.Rule{r}}), store}
}

func (a *askers) passing(n int) []*evaluate.Call {
	a.t.Helper()
	var all []*evaluate.Call
	for range n {
		c := &evaluate.Call{}
		a.evaluator.Decide(a.t.Context(), user("ada"), c)
		if !c.Verdict.Passes() {
			a.t.Fatalf("%v, want that %d pass at once", c.Verdict, n)
		}
		all = append(all, c)
	}
	return all
}

func (a *askers) settle(status int, calls ...*evaluate.Call) {
	for _, c := range calls {
		c.Settle(a.t.Context(), policy.Response{Status: status})
	}
}

func (a *askers) presume(calls ...*evaluate.Call) {
	for _, c := range calls {
		c.Presume(a.t.Context())
	}
}

// left returns how many more requests pass and count.
func (a *askers) left() (n int) {
	for {
		c := &evaluate.Call{}
		a.evaluator.Decide(a.t.Context(), user("ada"), c)
		if !c.Verdict.Passes() {
			return n
		}
		a.settle(401, c)
		n++
	}
}

// TestFailuresBesidePresumed: failures that do not fit beside presumed units replace the
// presumed units that turn out not to count. Otherwise a client could hang up on as many
// successful log-ins while its failures end, and would be charged for none.
func TestFailuresBesidePresumed(t *testing.T) {
	for _, limits := range [][]string{
		{"5/h sliding-log"},
		{"5/h fixed-window"},
		{"5/h sliding-counter"},
		{"5/h sliding-histogram"},
		{"5/h burst 5"},
		{"5/h sliding-log debt 2"},
		{"9/h sliding-log", "day: 5/day fixed-window"},
	} {
		for _, c := range []struct{ fail, good, want int }{
			{5, 9, 0}, {3, 9, 2}, {0, 9, 5}, {9, 5, 0}, {2, 3, 3}, {1, 1, 4},
		} {
			a := newAskers(t, limits...)
			fail, good := a.passing(c.fail), a.passing(c.good)
			a.presume(good...)
			a.settle(401, fail...)
			a.settle(200, good...)
			if got := a.left(); got != c.want {
				t.Errorf("%q: %d more pass behind %d failures that ended beside %d of no outcome, want %d", limits, got, c.fail, c.good, c.want)
			}
		}
	}
}

// TestPresumedThatCounts: presumed units that count in the end leave no units to others.
func TestPresumedThatCounts(t *testing.T) {
	a := newAskers(t, "5/h sliding-log")
	fail, good, bad := a.passing(2), a.passing(2), a.passing(3)
	a.presume(good...)
	a.presume(bad...)
	a.settle(401, fail...)
	a.settle(401, bad...)
	a.settle(200, good[0])
	if got := a.left(); got != 0 {
		t.Errorf("%d more pass, want 0: the failures were owed", got)
	}
	a.settle(200, good[1])
	if got := a.left(); got != 0 {
		t.Errorf("%d more pass, want 0", got)
	}
}

// TestFailureWhileItIsGivenBack: units that do not fit while the store gives presumed ones
// back are charged after that.
func TestFailureWhileItIsGivenBack(t *testing.T) {
	t.Run("before it is", func(t *testing.T) {
		a := newAskers(t, "1/h sliding-log")
		fail, good := a.passing(1), a.passing(1)
		a.presume(good...)
		a.store.Before = func(ctx context.Context, req sluice.Request) error {
			if req.Op == sluice.OpRefund {
				fail[0].Settle(ctx, policy.Response{Status: 401})
			}
			return nil
		}
		a.settle(200, good...)
		if got := a.left(); got != 0 {
			t.Errorf("%d more pass behind a failure, want 0", got)
		}
	})
	t.Run("as it is", func(t *testing.T) {
		a := newAskers(t, "1/h sliding-log")
		fail, good := a.passing(1), a.passing(1)
		a.presume(good...)
		a.store.After = func(req sluice.Request, r sluice.Result) error {
			if req.Op == sluice.OpCharge {
				a.store.After = nil
				a.settle(200, good...)
			}
			return r.Err
		}
		a.settle(401, fail...)
		if got := a.left(); got != 0 {
			t.Errorf("%d more pass behind a failure, want 0", got)
		}
	})
}

// TestPresumedUnderSeveralRules: each rule is owed its own units.
func TestPresumedUnderSeveralRules(t *testing.T) {
	when := &policy.When{Status: []policy.Status{policy.Code(401)}}
	first, second := one("first", by(policy.Header("X-User")), "2/h sliding-log"), one("second", by(policy.Header("X-User")), "3/h sliding-log")
	first.When, second.When = when, when
	trial := shadow(one("trial", nil, "2/h sliding-log"))
	trial.When = when
	evaluator := newEvaluator(t, evaluate.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{first, second, trial}})
	a := &askers{t: t, evaluator: evaluator}
	fail, good := a.passing(2), a.passing(3)
	a.presume(good...)
	a.settle(401, fail...)
	a.settle(200, good...)
	if got := a.left(); got != 0 {
		t.Errorf("%d more pass behind two failures of two, want 0", got)
	}
}
