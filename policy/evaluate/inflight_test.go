// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// flights returns a world with a rule that limits each user's requests in flight, and to 10 a
// minute.
func flights(t *testing.T, most int64, change func(*policy.Rule)) *world {
	t.Helper()
	r := one("api", by(policy.Header("X-User")), "10/min fixed-window")
	r.Levels[0].InFlight = &sluice.SlotLimit{Cap: most}
	if change != nil {
		change(&r)
	}
	w := newWorld(t, r)
	w.eval.Slots = w.store.Store.(sluice.SlotStore)
	return w
}

// slotStore is a testkit.Store that keeps slots, too.
type slotStore struct {
	*testkit.Store
	slots int
}

func (s *slotStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	s.slots++
	return stores.Slot(ctx, s.Store.Store, req)
}

// joined is flights with a store that keeps the slots itself.
func joined(t *testing.T, most int64, change func(*policy.Rule)) *world {
	t.Helper()
	w := flights(t, most, change)
	w.eval.Slots, w.eval.Store = nil, &slotStore{Store: w.store}
	return w
}

// bothWays runs a test on slots in a separate store, and on a store that keeps them itself.
func bothWays(t *testing.T, test func(*testing.T, func(*testing.T, int64, func(*policy.Rule)) *world)) {
	t.Helper()
	t.Run("apart", func(t *testing.T) { test(t, flights) })
	t.Run("joined", func(t *testing.T) { test(t, joined) })
}

func TestInFlight(t *testing.T) { bothWays(t, testInFlight) }

func testInFlight(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 2, nil)
	first, second := w.allow(user("ada")), w.allow(user("ada"))
	third := w.decide(user("ada"))
	if f := third.InFlight; third.Allowed || f == nil || f.Rule.Name != "api" || f.Key != "ada" || f.Limit.Cap != 2 || f.Decision.Held != 2 {
		t.Fatalf("third of two: allowed %v, %+v", third.Allowed, f)
	}
	if third.Decision.RetryAfter != bounds.DefaultLease {
		t.Errorf("retry after %v, want the lease", third.Decision.RetryAfter)
	}
	if got, want := w.remaining("api", "", "ada"), []int64{8}; !slices.Equal(got, want) {
		t.Errorf("remaining %v, want %v: a request denied by those in flight is charged nothing", got, want)
	}
	w.settle(third, policy.Response{})
	if w.decide(user("ada")).Allowed {
		t.Error("settling a denied request has released another's slot")
	}
	w.allow(user("bob"))
	w.settle(first, policy.Response{Status: 200})
	w.settle(first, policy.Response{Status: 200})
	fourth := w.allow(user("ada"))
	if w.decide(user("ada")).Allowed {
		t.Error("settling twice has released two slots")
	}
	for _, v := range []*evaluate.Verdict{second, fourth} {
		if err := v.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.allow(user("ada"))
	w.allow(user("ada"))
}

func TestRateDenialReleasesSlots(t *testing.T) { bothWays(t, testRateDenialReleasesSlots) }

func testRateDenialReleasesSlots(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 1, nil)
	for range 10 {
		w.settle(w.allow(user("ada")), policy.Response{})
	}
	w.deny(user("ada"), "api", "fixed-window.min", time.Minute)
	w.now = w.now.Add(time.Minute)
	w.allow(user("ada"))
}

func TestLeases(t *testing.T) { bothWays(t, testLeases) }

func testLeases(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 1, func(r *policy.Rule) { r.Levels[0].InFlight.TTL = time.Minute })
	v := w.allow(user("ada"))
	if got := v.Lease(); got != time.Minute {
		t.Errorf("lease %v, want a minute", got)
	}
	w.now = w.now.Add(40 * time.Second)
	if ok, err := v.Renew(t.Context()); !ok || err != nil {
		t.Fatalf("renewed %v: %v", ok, err)
	}
	w.now = w.now.Add(40 * time.Second)
	if w.decide(user("ada")).Allowed {
		t.Error("a renewed lease has expired too early")
	}
	w.now = w.now.Add(time.Minute)
	w.allow(user("ada"))
	if ok, err := v.Renew(t.Context()); ok || err != nil {
		t.Errorf("an expired lease was renewed: %v, %v", ok, err)
	}
}

func TestInFlightOnly(t *testing.T) { bothWays(t, testInFlightOnly) }

func testInFlightOnly(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 1, func(r *policy.Rule) { r.Levels[0].Limits = nil })
	v := w.allow(user("ada"))
	if w.decide(user("ada")).Allowed {
		t.Error("the second of one was allowed")
	}
	w.settle(v, policy.Response{})
	w.allow(user("ada"))
	if w.store.Calls() != 0 {
		t.Error("the store was asked about a rule without a rate")
	}
	if l := levelOf(w.eval.Policy, "api", ""); l.Base != nil || l.Limited {
		t.Error("a charge without a limit")
	}
}

func TestInFlightInShadow(t *testing.T) { bothWays(t, testInFlightInShadow) }

func testInFlightInShadow(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 1, func(r *policy.Rule) { r.Shadow = true })
	w.allow(user("ada"))
	v := w.allow(user("ada"))
	denied := 0
	for s := range v.Trials() {
		if !s.Allowed {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("%d denials of candidates, want 1", denied)
	}
	w.settle(v, policy.Response{})
}

type brokenSlots struct {
	sluice.Store
	err error
}

func (b brokenSlots) Slot(context.Context, sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.SlotDecision{}, b.err
}

func TestInFlightFailure(t *testing.T) {
	down := errors.New("down")
	for _, failure := range []sluice.Failure{sluice.FailOpen, sluice.FailClosed} {
		w := flights(t, 1, func(r *policy.Rule) { r.Failure = failure })
		w.eval.Slots = brokenSlots{err: down}
		v := w.decide(user("ada"))
		if v.Allowed != (failure == sluice.FailOpen) || !errors.Is(v.Err, down) || v.Failure != failure {
			t.Errorf("%v: allowed %v, failure %v, error %v", failure, v.Allowed, v.Failure, v.Err)
		}
	}
	w := flights(t, 1, func(r *policy.Rule) { r.Failure = sluice.FailClosed })
	w.eval.Slots = nil
	if v := w.decide(user("ada")); v.Allowed || v.Err == nil {
		t.Error("allowed without anything that keeps slots")
	}
}

// Renewing, settling and deciding again must leave no slots behind.
func TestSlotsAreNotLost(t *testing.T) { bothWays(t, testSlotsAreNotLost) }

func testSlotsAreNotLost(t *testing.T, flights func(*testing.T, int64, func(*policy.Rule)) *world) {
	t.Helper()
	w := flights(t, 3, nil)
	var v evaluate.Verdict
	for range 100 {
		w.eval.Decide(t.Context(), user("ada"), &v)
		if v.Allowed {
			w.settle(&v, policy.Response{})
		}
	}
	w.now = w.now.Add(time.Minute)
	for i := range 3 {
		if got := w.decide(user("ada")); !got.Allowed {
			t.Fatalf("request %d of 3 denied: %+v", i+1, got.InFlight)
		}
	}
}
