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
	"github.com/sluicegate/sluice/policy"
)

// asked counts a store's calls: with one request, with several, and for slots alone.
type asked struct{ takes, batches, slots int }

// asks returns the calls of w's store since the last asks.
func (w *world) asks() asked {
	s := w.eval.Store.(*slotStore)
	before, batches := w.had, int(s.Batches())
	w.had = asked{int(s.Calls()) - batches, batches, s.slots}
	return asked{w.had.takes - before.takes, batches - before.batches, s.slots - before.slots}
}

func TestCallsForASlotAndUnits(t *testing.T) {
	counting := one("errors", by(policy.Header("X-User")), "9/min")
	counting.When = &policy.When{Status: []policy.Status{policy.Class(5)}}
	shadow := one("shadow", by(policy.Header("X-User")), "9/min")
	shadow.Shadow = true
	other := one("other", by(policy.Header("X-User")), "9/min")
	other.Levels[0].InFlight = &sluice.SlotLimit{Cap: 9}
	for _, c := range []struct {
		name   string
		change func(*policy.Rule)
		more   []policy.Rule
		wait   time.Duration
		want   asked
	}{
		{name: "a slot and a limit", want: asked{takes: 1}},
		{name: "a rule that counts responses", more: []policy.Rule{counting}, want: asked{batches: 1}},
		{name: "a shadow rule", more: []policy.Rule{shadow}, want: asked{slots: 1, batches: 1}},
		{name: "two slots", more: []policy.Rule{other}, want: asked{slots: 2, takes: 1}},
		{name: "no limit", change: func(r *policy.Rule) { r.Levels[0].Limits = nil }, want: asked{slots: 1}},
		{name: "a slot of a candidate", change: func(r *policy.Rule) { r.Shadow = true }, want: asked{slots: 1, takes: 1}},
		{name: "requests that wait", wait: time.Second, want: asked{slots: 1, takes: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := one("api", by(policy.Header("X-User")), "10/min fixed-window")
			r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 2}
			if c.change != nil {
				c.change(&r)
			}
			w := newWorld(t, append([]policy.Rule{r}, c.more...)...)
			w.eval.Store, w.eval.MaxWait = &slotStore{Store: w.store}, c.wait
			w.allow(user("ada"))
			if got := w.asks(); got != c.want {
				t.Errorf("the store was asked %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCallsForDeniedSlotsAndUnits(t *testing.T) {
	w := joined(t, 1, func(r *policy.Rule) { r.Levels[0].Limits = limits("2/min fixed-window") })
	v := w.allow(user("ada"))
	w.asks()
	denied := w.decide(user("ada"))
	if got, want := w.asks(), (asked{takes: 1}); denied.Allowed || got != want {
		t.Errorf("the slot is held: allowed %v, asked %+v, want %+v", denied.Allowed, got, want)
	}
	if denied.InFlight == nil || denied.Limits != 0 || denied.Decision != (sluice.Decision{RetryAfter: bounds.DefaultLease}) {
		t.Errorf("the slot is held: got %+v with %d outcomes, in flight %+v", denied.Decision, denied.Limits, denied.InFlight)
	}
	w.settle(v, policy.Response{})
	w.settle(w.allow(user("ada")), policy.Response{})
	w.asks()
	w.deny(user("ada"), "api", "fixed-window.min", time.Minute)
	if got, want := w.asks(), (asked{takes: 1}); got != want {
		t.Errorf("the units are spent: asked %+v, want %+v", got, want)
	}
}

// TestSlotWithGrace: the slot of a request over its soft limit is part of both of its calls.
func TestSlotWithGrace(t *testing.T) {
	w := joined(t, 2, func(r *policy.Rule) { r.Levels[0].Limits = limits("soft 1/min fixed-window grace 5/min fixed-window") })
	w.allow(user("ada"))
	w.asks()
	v := w.allow(user("ada"))
	if got, want := w.asks(), (asked{takes: 2}); got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
	if third := w.decide(user("ada")); third.InFlight == nil || third.InFlight.Decision.Held != 2 {
		t.Fatalf("the third of two: got %+v", third.InFlight)
	}
	w.settle(v, policy.Response{})
	w.allow(user("ada"))
}

// TestAnotherRuleDeniesAfterTheSlot: the slot is released if a rule that counts responses
// denies a request whose slot was granted.
func TestAnotherRuleDeniesAfterTheSlot(t *testing.T) {
	counting := one("errors", by(policy.Header("X-User")), "1/min fixed-window")
	counting.When = &policy.When{Status: []policy.Status{policy.Class(5)}}
	r := one("api", by(policy.Header("X-User")), "10/min fixed-window")
	r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 1}
	w := newWorld(t, r, counting)
	w.eval.Store = &slotStore{Store: w.store}
	w.settle(w.allow(user("ada")), policy.Response{Status: 500})
	if v := w.decide(user("ada")); v.Allowed || v.InFlight != nil || v.Err != nil {
		t.Fatalf("allowed %v, in flight %+v, error %v", v.Allowed, v.InFlight, v.Err)
	}
	w.now = w.now.Add(time.Minute)
	w.allow(user("ada"))
}

func TestFailureOfSlotAndUnits(t *testing.T) {
	down := errors.New("down")
	for _, c := range []struct {
		name     string
		failure  sluice.Failure
		err      error
		releases int
	}{
		{"open", sluice.FailOpen, down, 1},
		{"closed", sluice.FailClosed, down, 1},
		{"not sent", sluice.FailOpen, &sluice.NotSentError{Err: down}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The slot and the units are of different rules: both decide.
			r := one("slots", by(policy.Header("X-User")))
			r.Levels[0].InFlight, r.Failure = &sluice.SlotLimit{Cap: 1}, c.failure
			units := one("units", by(policy.Header("X-User")), "10/min fixed-window")
			units.Failure = sluice.FailOpen
			w := newWorld(t, r, units)
			w.eval.Store = &slotStore{Store: w.store}
			w.store.After = func(sluice.Request, sluice.Result) error { return c.err } // the answer is lost
			v := w.decide(user("ada"))
			if v.Allowed != (c.failure == sluice.FailOpen) || !errors.Is(v.Err, down) || v.Failure != c.failure {
				t.Errorf("allowed %v, failure %v, error %v", v.Allowed, v.Failure, v.Err)
			}
			if v.Lease() != 0 {
				t.Error("a slot that may not be held has a lease")
			}
			if v.Allowed {
				w.settle(v, policy.Response{})
			}
			if got, want := w.asks(), (asked{takes: 1, slots: c.releases}); got != want {
				t.Errorf("asked %+v, want %+v", got, want)
			}
		})
	}
}

// noSlots is a store that wraps one without slots.
type noSlots struct{ sluice.Store }

func (s noSlots) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if req.Slot != nil {
		return sluice.Decision{}, sluice.ErrNoSlots
	}
	return s.Store.Take(ctx, req)
}

func (s noSlots) Slot(context.Context, sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.SlotDecision{}, sluice.ErrNoSlots
}

func TestStoreBehindOthersKeepsNoSlots(t *testing.T) {
	for _, failure := range []sluice.Failure{sluice.FailOpen, sluice.FailClosed} {
		w := flights(t, 1, func(r *policy.Rule) { r.Failure = failure })
		w.eval.Slots, w.eval.Store = nil, noSlots{w.store}
		v := w.decide(user("ada"))
		if v.Allowed != (failure == sluice.FailOpen) || !errors.Is(v.Err, sluice.ErrNoSlots) || v.InFlight != nil {
			t.Errorf("%v: allowed %v, error %v, in flight %+v", failure, v.Allowed, v.Err, v.InFlight)
		}
		want := []int64{10}
		if v.Allowed {
			want = []int64{9} // the units count
		}
		if got := w.remaining("api", "", "ada"); !slices.Equal(got, want) {
			t.Errorf("%v: remaining %v, want %v", failure, got, want)
		}
	}
}

// TestRenewAcquiresAnew: a lease that ended without renewal is acquired anew.
func TestRenewAcquiresAnew(t *testing.T) {
	w := joined(t, 1, func(r *policy.Rule) { r.Levels[0].InFlight.TTL = time.Minute })
	v := w.allow(user("ada"))
	w.now = w.now.Add(2 * time.Minute)
	if ok, err := v.Renew(t.Context()); !ok || err != nil {
		t.Errorf("renewed %v, %v, want the slot anew, as it is free", ok, err)
	}
	if w.decide(user("ada")).Allowed {
		t.Error("another holds the slot that was acquired anew")
	}
}
