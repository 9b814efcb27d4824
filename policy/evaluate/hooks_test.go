// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// oneInFlight is a rule of one request in flight whose requests may be delayed.
func oneInFlight(limits ...sluice.Limit) policy.Rule {
	r := policy.NewRule("api", policy.IP(), limits...)
	r.Levels[0].InFlight = &sluice.SlotLimit{Name: "one", Cap: 1}
	return r
}

// panicking calls f and reports whether it has panicked.
func panicking(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// TestEvaluatorAfterPanic: a hook that panics keeps neither a place in the queue nor a
// slot in flight, and its request has cost nothing.
func TestEvaluatorAfterPanic(t *testing.T) {
	var panics bool
	hook := func() {
		if panics {
			panic("as asked")
		}
	}
	for _, c := range []struct {
		name    string
		options evaluate.Options
	}{
		{"OnDelay", evaluate.Options{OnDelay: func(ctx context.Context, _ policy.Attributes) (context.Context, func()) {
			hook()
			return ctx, func() {}
		}}},
		{"OnDecision", evaluate.Options{OnDecision: func(context.Context, policy.Attributes, *evaluate.Event) { hook() }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				panics = false
				o := c.options
				o.MaxWait, o.Queue, o.Rules = time.Minute, evaluate.NewQueue(1), []policy.Rule{oneInFlight(sluice.PerSecond(1))}
				evaluator := newEvaluator(t, o)
				decide := func() evaluate.VerdictKind {
					var call evaluate.Call
					evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
					call.Settle(t.Context(), policy.Response{Status: 200})
					return call.Verdict
				}
				if got := decide(); got != evaluate.Allowed {
					t.Fatal(got)
				}
				panics = true
				for range 3 {
					if !panicking(func() { decide() }) {
						t.Fatal("the hook was not called")
					}
				}
				if n := o.Queue.Stats().Held; n != 0 {
					t.Errorf("%d places of the queue are taken", n)
				}
				panics = false
				start := time.Now()
				if got := decide(); !got.Passes() || time.Since(start) > time.Second {
					t.Errorf("afterwards: %v after %v", got, time.Since(start))
				}
			})
		})
	}
}

// TestEvaluatorForgottenCall: a call that is used again without being settled no longer renews
// the slots of its last use.
func TestEvaluatorForgottenCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &renewals{SlotStore: memstore.New(memstore.Options{})}
		evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots})
		var call evaluate.Call
		evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
		evaluator.Decide(t.Context(), client("192.0.2.2"), &call)
		call.Settle(t.Context(), policy.Response{Status: 200})
		time.Sleep(10 * bounds.DefaultLease)
		if n := slots.n.Load(); n != 0 {
			t.Errorf("%d renewals after both uses", n)
		}
		evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
		if call.Verdict != evaluate.Allowed {
			t.Errorf("when the lease is over: %v", call.Verdict)
		}
		call.Settle(t.Context(), policy.Response{Status: 200})
	})
}

// TestEvaluatorKeepsSlots: a client that has left does not free its slot, as its request
// still runs.
func TestEvaluatorKeepsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := memstore.New(memstore.Options{})
		evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots})
		ctx, leave := context.WithCancel(t.Context())
		var runs, next evaluate.Call
		evaluator.Decide(ctx, client("192.0.2.1"), &runs)
		leave()
		time.Sleep(3 * bounds.DefaultLease)
		if evaluator.Decide(t.Context(), client("192.0.2.1"), &next); next.Verdict != evaluate.Denied {
			t.Errorf("beside one that runs: %v", next.Verdict)
		}
		runs.Settle(ctx, policy.Response{Status: 200})
		if evaluator.Decide(t.Context(), client("192.0.2.1"), &next); next.Verdict != evaluate.Allowed {
			t.Errorf("afterwards: %v", next.Verdict)
		}
		next.Settle(t.Context(), policy.Response{Status: 200})
	})
}

// TestEvaluatorHeldCause: a request whose context ends has ended, whatever the cause.
func TestEvaluatorHeldCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerMinute(1))}, MaxWait: time.Hour})
		ctx, end := context.WithCancelCause(t.Context())
		var call evaluate.Call
		evaluator.Decide(ctx, client("192.0.2.1"), &call)
		time.AfterFunc(time.Second, func() { end(&policy.PartError{Part: policy.IP(), Problem: "is another"}) })
		evaluator.Decide(ctx, client("192.0.2.1"), &call)
		if wait, ok := call.Retry(); call.Verdict != evaluate.Abandoned || !errors.Is(call.Err, context.Canceled) || !ok || wait != time.Minute {
			t.Errorf("%v (%v), retry %v %v", call.Verdict, call.Err, wait, ok)
		}
	})
}

// TestEvaluatorSettlesWhileRenewing: settling waits for a renewal in progress, and an error of
// stopping that renewal is not reported.
func TestEvaluatorSettlesWhileRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &slow{SlotStore: memstore.New(memstore.Options{})}
		var reported []error
		evaluator := newEvaluator(t, evaluate.Options{
			Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots,
			OnError: func(_ context.Context, _ policy.Attributes, err error) { reported = append(reported, err) },
		})
		var call evaluate.Call
		evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
		time.Sleep(bounds.DefaultLease / 2)
		if n := slots.renewing.Load(); n != 1 {
			t.Fatalf("%d renewals are under way", n)
		}
		call.Settle(t.Context(), policy.Response{Status: 200})
		if n := slots.renewing.Load(); n != 0 || len(reported) != 0 {
			t.Errorf("settled: %d renewals are under way, reported %v", n, reported)
		}
	})
}

// slow are slots whose renewals end a second after they were canceled.
type slow struct {
	sluice.SlotStore
	renewing atomic.Int64
}

func (s *slow) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op != sluice.SlotRenew {
		return s.SlotStore.Slot(ctx, req)
	}
	s.renewing.Add(1)
	defer s.renewing.Add(-1)
	<-ctx.Done()
	time.Sleep(time.Second)
	return sluice.SlotDecision{}, ctx.Err()
}

// renewals counts renewals of slots.
type renewals struct {
	sluice.SlotStore
	n atomic.Int64
}

func (s *renewals) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op == sluice.SlotRenew {
		s.n.Add(1)
	}
	return s.SlotStore.Slot(ctx, req)
}
