// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestChargeBesideWhatIsLeft: a charge, which need not fit, finds as much room as if delayed
// requests that have hung up had never come.
func TestChargeBesideWhatIsLeft(t *testing.T) {
	cost := func(units string) policy.Response {
		return policy.Response{Status: 200, Header: func(string) []string { return []string{units} }}
	}
	for _, limit := range []string{"1/s burst 2 debt 5", "1/s burst 2 interval-refill debt 5", "1/s burst 2 leaky-bucket nodelay debt 5"} {
		t.Run(limit, func(t *testing.T) {
			var waits [2]time.Duration
			for i, leave := range []int{0, 2} {
				synctest.Test(t, func(t *testing.T) {
					r := one("api", by(policy.Header("X-User")), limit)
					r.Cost = policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 100, Units: 1}
					l := newLine(t, evaluate.Options{MaxWait: 10 * time.Second}, r)
					var dear evaluate.Call
					l.evaluator.Decide(t.Context(), user("ada"), &dear)
					l.send("cheap", user("ada"))
					for range leave {
						l.send("leaves", user("ada"))()
					}
					dear.Settle(t.Context(), cost("50"))
					time.Sleep(3 * time.Second)
					synctest.Wait()
					var late evaluate.Call
					ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
					defer cancel()
					l.evaluator.Decide(ctx, user("ada"), &late)
					if waits[i] = late.Decision.RetryAfter; waits[i] == 0 {
						t.Errorf("%v with %+v, want it denied for a while", late.Verdict, late.Decision)
					}
				})
			}
			if waits[0] != waits[1] {
				t.Errorf("the next is denied for %v, and for %v where two have left meanwhile", waits[0], waits[1])
			}
		})
	}
}

// TestPresumeBesideWhatIsLeft is TestChargeBesideWhatIsLeft for presumed units, under a rule
// that delayed requests before it was changed.
func TestPresumeBesideWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one("api", by(policy.Header("X-User")), "2/min sliding-log")
		l := newLine(t, evaluate.Options{MaxWait: time.Hour}, r)
		r.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
		counts := newEvaluator(t, evaluate.Options{Store: l.store, Queue: l.queue, Rules: []policy.Rule{r}})
		var bad [2]evaluate.Call
		for i := range bad {
			counts.Decide(t.Context(), user("ada"), &bad[i])
		}
		l.send("a", user("ada"))
		l.send("b", user("ada"))
		l.send("leaves", user("ada"))() // its instant is free, a minute from now
		time.Sleep(50 * time.Second)
		for i := range bad {
			bad[i].Presume(t.Context())
		}
		if n := l.store.Asked(sluice.OpRefund); n != 1 {
			t.Errorf("%d instants were given back before what counts was charged, want 1", n)
		}
	})
}
