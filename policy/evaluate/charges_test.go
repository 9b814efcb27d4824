// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// keyed returns an Evaluator with one rule by a header, which leaves waits to its caller, and
// its store.
func keyed(t *testing.T, limits ...string) (*evaluate.Evaluator, sluice.Store) {
	t.Helper()
	var list []sluice.Limit
	for _, text := range limits {
		list = append(list, sluice.MustParseLimit(text))
	}
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	store := memstore.New(memstore.Options{Now: now})
	e, err := evaluate.New(evaluate.Options{
		Store: store, Rules: []policy.Rule{policy.NewRule("llm", policy.Header("X-User"), list...)}, CallerWaits: true, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, store
}

func byUser(name string) policy.Attributes {
	return (&policy.Request{Headers: map[string][]string{"X-User": {name}}, Length: -1}).Attributes()
}

// TestCallCost: the cost of a Call replaces that of the rule, also 0.
func TestCallCost(t *testing.T) {
	t.Parallel()
	e, _ := keyed(t, "10/min sliding-log")
	var c evaluate.Call
	for _, step := range []struct{ cost, left int64 }{{7, 3}, {0, 3}, {4, 3}, {3, 0}} {
		c.Cost = &step.cost
		e.Decide(t.Context(), byUser("ada"), &c)
		if c.Verdict.Passes() != (step.cost != 4) || c.Decision.Remaining != step.left || c.Charge.Cost != step.cost {
			t.Errorf("cost %d: got %v, %d left of a charge of %d", step.cost, c.Verdict, c.Decision.Remaining, c.Charge.Cost)
		}
	}
	c.Cost = nil
	e.Decide(t.Context(), byUser("bob"), &c)
	if c.Decision.Remaining != 9 {
		t.Errorf("the rule's own cost: %d left, want 9", c.Decision.Remaining)
	}
}

// TestCallHold: a Call opens a hold once, and Settle of the Call leaves it open.
func TestCallHold(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]string{"one limit": {"10/min sliding-log"}, "two limits": {"10/min sliding-log", "10/h sliding-log"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, store := keyed(t, limits...)
			cost := int64(6)
			c := evaluate.Call{Cost: &cost, Hold: &sluice.Hold{ID: "a", TTL: time.Minute}}
			for range 2 {
				e.Decide(t.Context(), byUser("ada"), &c)
				if c.Verdict != evaluate.Allowed || c.Decision.Hold != sluice.HoldOpen {
					t.Fatalf("got %v, %+v", c.Verdict, c.Decision)
				}
				c.Settle(t.Context(), policy.Response{})
			}
			other := int64(5)
			c.Cost = &other
			e.Decide(t.Context(), byUser("ada"), &c)
			if c.Verdict != evaluate.Denied || c.Decision.Hold != sluice.HoldDiffers {
				t.Errorf("another cost: got %v, %+v", c.Verdict, c.Decision)
			}
			c.Hold = nil
			charges := e.Charges(t.Context(), byUser("ada"), &c)
			req := sluice.Request{Op: sluice.OpSettle, Charge: charges[0], Hold: &sluice.Hold{ID: "a", TTL: time.Minute}}
			req.Cost = 2
			if d, err := store.Take(t.Context(), req); err != nil || d.Remaining != 8 || d.Hold != sluice.HoldSettled {
				t.Errorf("settle: got %+v, %v", d, err)
			}
		})
	}
}

// TestCharges: Charges calls no store, and Conclude makes the Event of its result.
func TestCharges(t *testing.T) {
	t.Parallel()
	e, store := keyed(t, "10/min sliding-log", "12/h sliding-log")
	var c evaluate.Call
	cost := int64(8)
	c.Cost = &cost
	for i, want := range []evaluate.VerdictKind{evaluate.Allowed, evaluate.Denied} {
		charges := e.Charges(t.Context(), byUser("ada"), &c)
		if len(charges) != 1 || charges[0].Key == "" || charges[0].Cost != 8 {
			t.Fatalf("got charges %+v", charges)
		}
		outcomes := make(sluice.Outcomes, 2)
		d, err := store.Take(t.Context(), sluice.Request{Charge: charges[0], Outcomes: &outcomes})
		c.Conclude(t.Context(), sluice.Result{Decision: d, Err: err}, outcomes)
		if c.Verdict != want || c.Limit == nil || c.Rule == nil || c.Evaluated == nil || len(c.Violated) != 2*i {
			t.Errorf("request %d: got %+v", i+1, c.Event)
		}
	}
	if got := e.Charges(t.Context(), (&policy.Request{}).Attributes(), &c); got != nil || c.Verdict != evaluate.Refused {
		t.Errorf("without a key: got %+v, %v", got, c.Verdict)
	}
}
