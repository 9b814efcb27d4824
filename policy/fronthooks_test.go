// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

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

// TestFrontAfterPanic: a hook that panics keeps neither a place in the queue nor a
// slot in flight, and its request has cost nothing.
func TestFrontAfterPanic(t *testing.T) {
	var panics bool
	hook := func() {
		if panics {
			panic("as asked")
		}
	}
	for _, c := range []struct {
		name    string
		options policy.FrontOptions
	}{
		{"OnDelay", policy.FrontOptions{OnDelay: func(ctx context.Context, _ policy.Attributes) (context.Context, func()) {
			hook()
			return ctx, func() {}
		}}},
		{"OnDecision", policy.FrontOptions{OnDecision: func(context.Context, policy.Attributes, *policy.Event) { hook() }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				panics = false
				o := c.options
				o.MaxWait, o.Queue, o.Rules = time.Minute, policy.NewQueue(1), []policy.Rule{oneInFlight(sluice.PerSecond(1))}
				front := newFront(t, o)
				decide := func() policy.VerdictKind {
					var call policy.Call
					front.Decide(t.Context(), client("192.0.2.1"), &call)
					call.Settle(t.Context(), policy.Response{Status: 200})
					return call.Verdict
				}
				if got := decide(); got != policy.Allowed {
					t.Fatal(got)
				}
				panics = true
				for range 3 {
					if !panicking(func() { decide() }) {
						t.Fatal("the hook was not called")
					}
				}
				if n := o.Queue.Held(); n != 0 {
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

// TestFrontForgottenCall: a call that is used again without being settled no longer renews
// the slots of its last use.
func TestFrontForgottenCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &renewals{SlotStore: memstore.New(memstore.Options{})}
		front := newFront(t, policy.FrontOptions{Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots})
		var call policy.Call
		front.Decide(t.Context(), client("192.0.2.1"), &call)
		front.Decide(t.Context(), client("192.0.2.2"), &call)
		call.Settle(t.Context(), policy.Response{Status: 200})
		time.Sleep(10 * bounds.DefaultLease)
		if n := slots.n.Load(); n != 0 {
			t.Errorf("%d renewals after both uses", n)
		}
		front.Decide(t.Context(), client("192.0.2.1"), &call)
		if call.Verdict != policy.Allowed {
			t.Errorf("when the lease is over: %v", call.Verdict)
		}
		call.Settle(t.Context(), policy.Response{Status: 200})
	})
}

// TestFrontKeepsSlots: a client that has left does not free its slot, as its request
// still runs.
func TestFrontKeepsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := memstore.New(memstore.Options{})
		front := newFront(t, policy.FrontOptions{Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots})
		ctx, leave := context.WithCancel(t.Context())
		var runs, next policy.Call
		front.Decide(ctx, client("192.0.2.1"), &runs)
		leave()
		time.Sleep(3 * bounds.DefaultLease)
		if front.Decide(t.Context(), client("192.0.2.1"), &next); next.Verdict != policy.Denied {
			t.Errorf("beside one that runs: %v", next.Verdict)
		}
		runs.Settle(ctx, policy.Response{Status: 200})
		if front.Decide(t.Context(), client("192.0.2.1"), &next); next.Verdict != policy.Allowed {
			t.Errorf("afterwards: %v", next.Verdict)
		}
		next.Settle(t.Context(), policy.Response{Status: 200})
	})
}

// TestFrontHeldCause: a request whose context ends has ended, whatever the cause.
func TestFrontHeldCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := newFront(t, policy.FrontOptions{Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerMinute(1))}, MaxWait: time.Hour})
		ctx, end := context.WithCancelCause(t.Context())
		var call policy.Call
		front.Decide(ctx, client("192.0.2.1"), &call)
		time.AfterFunc(time.Second, func() { end(&policy.PartError{Part: policy.IP(), Problem: "is another"}) })
		front.Decide(ctx, client("192.0.2.1"), &call)
		if wait, ok := call.Retry(); call.Verdict != policy.Abandoned || !errors.Is(call.Err, context.Canceled) || !ok || wait != time.Minute {
			t.Errorf("%v (%v), retry %v %v", call.Verdict, call.Err, wait, ok)
		}
	})
}

// TestFrontSettlesWhileRenewing: settling waits for a renewal in progress, and an error of
// stopping that renewal is not reported.
func TestFrontSettlesWhileRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &slow{SlotStore: memstore.New(memstore.Options{})}
		var reported []error
		front := newFront(t, policy.FrontOptions{
			Rules: []policy.Rule{oneInFlight(sluice.PerSecond(100))}, Slots: slots,
			OnError: func(_ context.Context, _ policy.Attributes, err error) { reported = append(reported, err) },
		})
		var call policy.Call
		front.Decide(t.Context(), client("192.0.2.1"), &call)
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
