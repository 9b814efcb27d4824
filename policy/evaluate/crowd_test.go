// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// A crowd that only some requests make is not known when rules are compiled; such a request
// falls to the failure policy.
func TestCrowdAtRun(t *testing.T) {
	var rules []policy.Rule
	for i := range sluice.MaxCharges + 1 {
		rules = append(rules, rule(fmt.Sprint("r", i), policy.Match{Headers: []policy.Field{{Name: fmt.Sprint("X-", i)}}}))
	}
	rules[3].Failure = sluice.FailClosed
	w := newWorld(t, rules...)
	p := &policy.Request{Path: "/", Headers: map[string][]string{}}
	for i := range sluice.MaxCharges + 1 {
		p.Headers[fmt.Sprint("X-", i)] = []string{"1"}
	}
	if v := w.decide(p.Attributes()); v.Allowed || v.Err == nil || v.Failure != sluice.FailClosed {
		t.Errorf("allowed %v, failure %v, error %v", v.Allowed, v.Failure, v.Err)
	}
	delete(p.Headers, "X-0")
	w.allow(p.Attributes())
}
