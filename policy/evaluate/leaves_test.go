// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/remote"
)

// caller is one client of an evaluator.
type caller struct {
	evaluator *evaluate.Evaluator
	headers   map[string][]string
}

func newCaller(t *testing.T, store sluice.Store, rules ...policy.Rule) *caller {
	t.Helper()
	f, err := evaluate.New(evaluate.Options{Store: store, Rules: rules, OnError: func(context.Context, policy.Attributes, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return &caller{f, make(map[string][]string)}
}

// passes decides a request, answers it if it passes, and reports whether it does.
func (c *caller) passes(ctx context.Context) bool {
	a := (&policy.Request{Method: "GET", Host: "h", Path: "/", Client: netip.MustParseAddr("192.0.2.1"), Headers: c.headers}).Attributes()
	var call evaluate.Call
	if c.evaluator.Decide(ctx, a, &call); !call.Verdict.Passes() {
		return false
	}
	call.Settle(context.WithoutCancel(ctx), policy.Response{Status: 200})
	return true
}

func gone(t *testing.T) context.Context {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	return ctx
}

// TestMoreLevelsThanAStoreDecides: a request that matches more rules than can be decided at
// once does not pass.
func TestMoreLevelsThanAStoreDecides(t *testing.T) {
	var rules []policy.Rule
	for i := range sluice.MaxCharges + 1 {
		r := policy.NewRule(fmt.Sprint("rule-", i), policy.IP(), sluice.PerHour(1))
		r.Match.Headers = []policy.Field{{Name: fmt.Sprint("X-", i)}}
		rules = append(rules, r)
	}
	c := newCaller(t, memstore.New(memstore.Options{}), rules...)
	for i := range sluice.MaxCharges + 1 {
		c.headers[fmt.Sprint("X-", i)] = []string{"1"}
	}
	for range 3 {
		if c.passes(t.Context()) {
			t.Error("a request passes that no rule was charged for")
		}
	}
	delete(c.headers, "X-0")
	if first, second := c.passes(t.Context()), c.passes(t.Context()); !first || second {
		t.Errorf("with as many as can be: passes %v, then %v", first, second)
	}
}

// TestDeadlineOfTheClient: a client whose deadline is too short does not pass by the failure
// policy, as the store has not failed.
func TestDeadlineOfTheClient(t *testing.T) {
	for _, failure := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal, sluice.FailClosed} {
		store, err := remote.Wrap(memstore.New(memstore.Options{}), remote.Options{Policy: failure, Local: memstore.New(memstore.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		r := policy.NewRule("api", policy.IP(), sluice.PerHour(5))
		r.Failure = failure
		c := newCaller(t, store, r)
		over, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		<-over.Done()
		for range 100 {
			if c.passes(over) {
				t.Fatalf("%v: it passes", failure)
			}
		}
		cancel()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// unheard is a store; its callers leave before it answers.
type unheard struct {
	*memstore.Store
	slots, units bool // the answers that come too late
}

func (s *unheard) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	d, err := s.Store.Slot(ctx, req)
	if !s.slots || req.Op != sluice.SlotAcquire {
		return d, err
	}
	return sluice.SlotDecision{}, sluice.NewMaybeSentError(context.Canceled, func(undo bool, heard func(sluice.Late)) {
		if undo {
			req.Op = sluice.SlotRelease
			_, err = s.Store.Slot(context.WithoutCancel(ctx), req)
		}
		heard(sluice.Late{Result: sluice.Result{Err: err}, Undone: undo})
	})
}

func (s *unheard) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Take(ctx, req)
	if !s.units || req.Op != sluice.OpTake {
		return d, err
	}
	return sluice.Decision{}, sluice.NewMaybeSentError(context.Canceled, func(undo bool, heard func(sluice.Late)) {
		if back, can := req.Undo(d); can && undo {
			_, err = s.Store.Take(context.WithoutCancel(ctx), back)
		}
		heard(sluice.Late{Result: sluice.Result{Decision: d, Err: err}, Undone: undo})
	})
}

// TestHangUpsTakeNothing: clients that hang up while the store is asked keep neither its
// slots nor its units.
func TestHangUpsTakeNothing(t *testing.T) {
	for _, failure := range []sluice.Failure{sluice.FailOpen, sluice.FailClosed} {
		for name, level := range map[string]policy.Level{
			"slots":            {InFlight: &sluice.SlotLimit{Cap: 5}},
			"slots and limits": {InFlight: &sluice.SlotLimit{Cap: 5}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1000)}}},
			"limits":           {Limits: []policy.Limit{{Limit: sluice.PerHour(5)}}},
		} {
			s := &unheard{Store: memstore.New(memstore.Options{}), slots: true, units: true}
			c := newCaller(t, s, policy.Rule{Name: "api", Levels: []policy.Level{level}, Failure: failure})
			for range 5 {
				c.passes(gone(t))
			}
			s.slots, s.units = false, false
			if !c.passes(t.Context()) {
				t.Errorf("%s, %v: five that hung up, and nobody else passes", name, failure)
			}
		}
	}
}

// unreached is a store that no request reaches.
type unreached struct{ *memstore.Store }

var errRefused = &sluice.NotSentError{Err: errors.New("connection refused")}

func (unreached) Slot(context.Context, sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.SlotDecision{}, errRefused
}

func (unreached) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errRefused
}

// TestRefusedHoldNoSlots: requests refused in an outage, which never reached the store, leave
// nothing to release afterwards.
func TestRefusedHoldNoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limits := range [][]policy.Limit{nil, {{Limit: sluice.PerSecond(1000)}}} {
			store, err := remote.Wrap(unreached{memstore.New(memstore.Options{})}, remote.Options{Policy: sluice.FailClosed, Local: memstore.New(memstore.Options{})})
			if err != nil {
				t.Fatal(err)
			}
			c := newCaller(t, store, policy.Rule{Name: "api", Failure: sluice.FailClosed, Levels: []policy.Level{{InFlight: &sluice.SlotLimit{Cap: 5}, Limits: limits}}})
			for range 200 {
				if c.passes(t.Context()) {
					t.Fatal("it passes")
				}
			}
			if n := store.Stats().Unreleased; n != 0 {
				t.Errorf("limits %v: %d slots are to be released", limits, n)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
