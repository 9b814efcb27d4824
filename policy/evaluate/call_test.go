// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestEvaluatorShadow: a request that a shadow rule would deny passes, reports so, and is
// settled.
func TestEvaluatorShadow(t *testing.T) {
	trial := policy.NewRule("trial", policy.IP(), sluice.PerMinute(1))
	trial.Shadow = true
	evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{oneInFlight(sluice.PerMinute(100)), trial}})
	var call evaluate.Call
	for i, want := range []string{"", "trial", "trial"} {
		evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
		if call.Verdict != evaluate.Allowed || !call.Verdict.Passes() || !call.Settles() || strings.Join(call.Violated, " ") != want {
			t.Errorf("request %d: %v, violated %q, settles %v", i+1, call.Verdict, call.Violated, call.Settles())
		}
		call.Settle(t.Context(), policy.Response{Status: 200})
	}
}

// TestEvaluatorEvent: an event describes the limit that binds among several.
func TestEvaluatorEvent(t *testing.T) {
	r := policy.NewRule("api", policy.IP(), sluice.PerMinute(4), sluice.PerHour(4))
	r.Levels[0].Limits[0].Name, r.Levels[0].Limits[1].Name = "minute", "hour"
	r.Cost.Units, r.Status = 3, 503
	evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{r}})
	var call evaluate.Call
	for range 2 {
		evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
	}
	if call.Rule == nil || call.Rule.Status != 503 || call.Charge != (sluice.Charge{Key: "192.0.2.1", Cost: 3}) || call.Limit.Name != "api/hour" {
		t.Errorf("rule %v, charge %v, limit %v", call.Rule, call.Charge, call.Limit)
	}
	if !slices.Equal(call.Violated, []string{"api/hour", "api/minute"}) {
		t.Errorf("violated %q, want each once and the one that binds first", call.Violated)
	}
	first := slices.Collect(call.Limits())
	evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
	if second := slices.Collect(call.Limits()); len(first) != 2 || !slices.Equal(first, second) {
		t.Errorf("limits %v, then %v: each is made once", first, second)
	}
}

// TestEvaluatorInFlight: a denial by a limit of requests in flight names its rule, and no time
// to retry.
func TestEvaluatorInFlight(t *testing.T) {
	evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{oneInFlight(sluice.PerMinute(9))}})
	var held, call evaluate.Call
	evaluator.Decide(t.Context(), client("192.0.2.1"), &held)
	evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
	if call.Verdict != evaluate.Denied || call.Rule == nil || call.Rule.Name != "api" || call.Limit != nil || call.Decision != (sluice.Decision{}) {
		t.Errorf("%v by %v, limit %v, decision %+v", call.Verdict, call.Rule, call.Limit, call.Decision)
	}
	held.Settle(t.Context(), policy.Response{Status: 200})
	held.Settle(t.Context(), policy.Response{Status: 200})
}

// TestEvaluatorUsedCall: a call's next use, which matches no rule, holds nothing of the last.
func TestEvaluatorUsedCall(t *testing.T) {
	store := &slotStore{Store: &testkit.Store{Store: memstore.New(memstore.Options{})}}
	evaluator := newEvaluator(t, evaluate.Options{
		Rules: []policy.Rule{oneInFlight(sluice.PerMinute(1))}, Store: store, Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")},
	})
	var call evaluate.Call
	evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
	first := call.Event
	evaluator.Decide(t.Context(), client("192.0.2.2"), &call) // and the first use is not settled
	asked := int(store.Calls()) + store.slots
	if n := len(slices.Collect(call.Limits())); n != 0 || call.Settles() || call.Limit != nil || call.Evaluated != nil {
		t.Errorf("%d limits, settles %v, limit %v, evaluated %v", n, call.Settles(), call.Limit, call.Evaluated)
	}
	call.Settle(t.Context(), policy.Response{Status: 200})
	if n := int(store.Calls()) + store.slots; n != asked {
		t.Errorf("settling what was refused has asked the store %d times", n-asked)
	}
	if first.Verdict != evaluate.Allowed || first.Limit.Name != "api" || first.Charge.Key != "192.0.2.1" {
		t.Errorf("a kept event has changed: %+v", first)
	}
}

// TestEvaluatorNow: overrides expire by Now.
func TestEvaluatorNow(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	r := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
	r.Levels[0].Overrides = []policy.Override{{
		Key: []string{"192.0.2.1"}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1000)}}, Expires: now.Add(time.Hour), Reason: "r", Author: "a",
	}}
	evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{r}, Now: func() time.Time { return now }})
	for _, want := range []int64{1000, 1} {
		var call evaluate.Call
		if evaluator.Decide(t.Context(), client("192.0.2.1"), &call); call.Limit.Quota != want {
			t.Errorf("at %v: %v, want %d", now, call.Limit, want)
		}
		now = now.Add(2 * time.Hour)
	}
}

// TestEvaluatorLeft: a client that left while its request was decided causes no OnError, as the
// store has not failed, and its slot is free.
func TestEvaluatorLeft(t *testing.T) {
	var reported []error
	r := oneInFlight(sluice.PerMinute(1))
	r.Failure = sluice.FailOpen
	slots := memstore.New(memstore.Options{})
	ctx, leave := context.WithCancel(t.Context())
	leaving := &testkit.Store{Before: func(context.Context, sluice.Request) error {
		leave()
		return context.Canceled
	}}
	evaluator := newEvaluator(t, evaluate.Options{
		Rules: []policy.Rule{r}, Slots: slots, Store: leaving,
		OnError: func(_ context.Context, _ policy.Attributes, err error) { reported = append(reported, err) },
	})
	for i, want := range []evaluate.VerdictKind{evaluate.Abandoned, evaluate.FailedOpen} {
		var call evaluate.Call
		evaluator.Decide(ctx, client("192.0.2.1"), &call)
		if call.Verdict != want || len(reported) != i || call.Verdict.Passes() != (i > 0) {
			t.Errorf("%v (%v), reported %v; want %v", call.Verdict, call.Err, reported, want)
		}
		ctx = t.Context()
	}
}

// TestEvaluatorHeldBack: the events of delayed requests hold the time until the key is full and,
// where the queue is full, the time to retry.
func TestEvaluatorHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := evaluate.NewQueue(1)
		evaluator := newEvaluator(t, evaluate.Options{Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.Limit{Quota: 1, Window: 10 * time.Second})}, MaxWait: time.Minute, Queue: queue})
		var first, second, third evaluate.Call
		evaluator.Decide(t.Context(), client("192.0.2.1"), &first)
		done := make(chan struct{})
		go func() { defer close(done); evaluator.Decide(t.Context(), client("192.0.2.1"), &second) }()
		synctest.Wait()
		evaluator.Decide(t.Context(), client("192.0.2.1"), &third)
		if wait, ok := third.Retry(); third.Verdict != evaluate.FailedClosed || !ok || wait != 20*time.Second {
			t.Errorf("in a full queue: %v, retry %v %v", third.Verdict, wait, ok)
		}
		if n := queue.Stats().Held; n != 1 {
			t.Errorf("%d are delayed, want the one that was before", n)
		}
		<-done
		if got := second.Decision.ResetAfter; second.Verdict != evaluate.Delayed || got != first.Decision.ResetAfter || got != second.Evaluated.Decision.ResetAfter {
			t.Errorf("delayed: %v, reset after %v (%v), want that of the first, %v", second.Verdict, got, second.Evaluated.Decision.ResetAfter, first.Decision.ResetAfter)
		}
	})
}

// TestEvaluatorUnfit: all kinds of rules that need a response are refused, and no others.
func TestEvaluatorUnfit(t *testing.T) {
	rule := func(change func(*policy.Rule)) policy.Rule {
		r := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
		change(&r)
		return r
	}
	after := &policy.CostFunc{After: func(policy.Attributes, *policy.Response) int64 { return 1 }}
	before := &policy.CostFunc{Before: func(policy.Attributes) (int64, error) { return 1, nil }}
	for name, c := range map[string]struct {
		rule policy.Rule
		fits bool
	}{
		"When":          {rule(func(r *policy.Rule) { r.When = &policy.When{Status: []policy.Status{policy.Code(401)}} }), false},
		"InFlight":      {oneInFlight(sluice.PerMinute(1)), false},
		"ResponseBytes": {rule(func(r *policy.Rule) { r.Cost.Of, r.Levels[0].Limits[0].Unit = policy.ResponseBytes, sluice.Bytes }), false},
		"After":         {rule(func(r *policy.Rule) { r.Cost = policy.Cost{Func: after} }), false},
		"Before":        {rule(func(r *policy.Rule) { r.Cost = policy.Cost{Func: before} }), true},
		"RequestBytes":  {rule(func(r *policy.Rule) { r.Cost.Of, r.Levels[0].Limits[0].Unit = policy.RequestBytes, sluice.Bytes }), true},
	} {
		store := memstore.New(memstore.Options{})
		if _, err := evaluate.New(evaluate.Options{Store: store, Rules: []policy.Rule{c.rule}, NoResponses: true}); (err == nil) != c.fits {
			t.Errorf("%s, without responses: %v", name, err)
		}
		if _, err := evaluate.New(evaluate.Options{Store: store, Rules: []policy.Rule{c.rule}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEvaluatorDetail: the seconds in the text are rounded up to at least one.
func TestEvaluatorDetail(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		200 * time.Millisecond: "retry after 1 s", 1500 * time.Millisecond: "retry after 2 s", 2 * time.Second: "retry after 2 s",
	} {
		evaluator := newEvaluator(t, evaluate.Options{
			Store: memstore.New(memstore.Options{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}),
			Rules: []policy.Rule{policy.NewRule("api", policy.IP(), sluice.Limit{Quota: 1, Window: wait})},
		})
		var call evaluate.Call
		for range 2 {
			evaluator.Decide(t.Context(), client("192.0.2.1"), &call)
		}
		if got := string(call.AppendDetail(nil)); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %q, want %q", wait, got, want)
		}
	}
}

// TestRPCCodeOfLeave: a call that its deadline ended and one that its client ended have
// different codes.
func TestRPCCodeOfLeave(t *testing.T) {
	ended := evaluate.Event{Verdict: evaluate.Abandoned, Err: fmt.Errorf("delayed: %w", context.DeadlineExceeded)}
	left := evaluate.Event{Verdict: evaluate.Abandoned, Err: context.Canceled}
	one, _ := ended.RPC()
	other, _ := left.RPC()
	if one != 4 || other != 1 {
		t.Errorf("codes %d and %d, want 4 and 1", one, other)
	}
}
