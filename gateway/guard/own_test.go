// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gateway/guard"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// A client's own limits are those of every policy, also of one that has other
// limits, or none, for the budget of requests without a part of the key.
func TestOwnOfSharedBudget(t *testing.T) {
	limits := []policy.Limit{{Limit: sluice.PerMinute(1)}}
	p, err := policy.Compile([]policy.Rule{{Name: "api", Levels: []policy.Level{{
		By: []policy.Part{policy.Header("X-User"), policy.IP()}, Missing: policy.Share, Limits: limits,
		Overrides:  []policy.Override{{Key: []string{"", "192.0.2.1"}, Limits: limits, Reason: "r", Author: "a"}},
		ExemptKeys: [][]string{{"", "192.0.2.2"}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	askers, err := sluice.New(store, "askers", sluice.PerMinute(30))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOwn(p, store, askers, httplimit.Draft11, time.Now); err != nil {
		t.Error(err)
	}
	if l := p.Rule(0).Levels[0]; len(l.Overrides) != 1 || len(l.ExemptKeys) != 1 {
		t.Errorf("the policy has changed: %+v", l)
	}
}
