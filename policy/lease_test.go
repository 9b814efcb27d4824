// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

func TestLeased(t *testing.T) {
	r := one("hot", by(policy.Header("X-User")), "100/s")
	r.Lease = &sluice.LeaseTerms{Units: 7}
	r.Levels[0].Overrides = []policy.Override{{Key: []string{"mallory"}, Limits: limits("1/h"), Reason: "abuse", Author: "ops"}}
	p, err := policy.Compile([]policy.Rule{r, one("cold", by(policy.Header("X-User")), "100/s")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, rule, key string
		want            bool
	}{
		{"of a leased rule", "hot", "ada", true},
		{"an override too small to be leased", "hot", "mallory", false},
		{"of another rule", "cold", "ada", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			charge := chargeOf(t, p, c.rule, "", c.key)
			i, ok := p.RuleOf(charge.Plan.Scope())
			if !ok {
				t.Fatalf("no rule of %q", charge.Plan.Scope())
			}
			of := &p.Rules()[i]
			got := of.Lease != nil
			if got {
				_, _, err := charge.Plan.Lease(*of.Lease)
				got = err == nil
			}
			if got != c.want || got && of.Lease.Units != 7 {
				t.Errorf("got %+v, %v, want %v", of.Lease, got, c.want)
			}
		})
	}
}
