// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// degraded is a store that a failure policy replaces.
type degraded struct{ sluice.Store }

func (s degraded) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Take(ctx, req)
	d.Degraded = true
	return d, err
}

// TestOutcomesWithoutStore: each outcome has its key and cost, and says whether the store
// decided and, if not, why.
func TestOutcomesWithoutStore(t *testing.T) {
	counts := one("counts", by(policy.Header("X-User")), "10/min")
	counts.When = &policy.When{Status: []policy.Status{policy.Code(401)}}
	failed := errors.New("broken")
	w := newWorld(t, one("takes", by(policy.Header("X-User")), "10/min", "20/h"), counts)
	w.store.After = func(req sluice.Request, _ sluice.Result) error {
		if req.Op == sluice.OpPeek {
			return failed
		}
		return nil
	}
	n := 0
	for o := range w.decide(user("ada")).Outcomes() {
		n++
		if o.Key != "ada" || o.Cost != 1 || o.Degraded {
			t.Errorf("%s: key %q, cost %d, degraded %t", o.Rule.Name, o.Key, o.Cost, o.Degraded)
		}
		if counts := o.Rule.Name == "counts"; errors.Is(o.Err, failed) != counts || o.Allowed == counts {
			t.Errorf("%s: error %v, allowed %t", o.Rule.Name, o.Err, o.Allowed)
		}
	}
	if n != 3 {
		t.Errorf("%d outcomes, want 3", n)
	}
	w = newWorld(t, one("takes", by(policy.Header("X-User")), "10/min", "20/h"))
	w.eval.Store = degraded{w.store}
	for o := range w.decide(user("ada")).Outcomes() {
		if !o.Degraded || !o.Allowed || o.Err != nil {
			t.Errorf("degraded %t, allowed %t, error %v", o.Degraded, o.Allowed, o.Err)
		}
	}
}
