// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// TestCounted: a limit has a debt by default if the rule's cost is known only afterwards and
// the algorithm forgets units that do not fit, up to the limit's largest debt.
func TestCounted(t *testing.T) {
	afterwards := policy.Cost{Of: policy.ResponseBytes}
	for _, c := range []struct {
		name, limit string
		rule        policy.Rule
		want        string
	}{
		{"a bucket", "100MB/min", policy.Rule{Cost: afterwards}, "100MB/min debt 1GB"},
		{"a larger burst", "100/min burst 500", policy.Rule{Cost: policy.Cost{Of: policy.Milliseconds}}, "100/min burst 500 debt 5000"},
		{"a counter", "100/min sliding-counter", policy.Rule{Cost: afterwards}, "100/min sliding-counter debt 1000"},
		{"a leaky bucket", "100/min burst 7 leaky-bucket", policy.Rule{Cost: afterwards}, "100/min burst 7 leaky-bucket debt 1000"},
		{"a function", "100/min", policy.Rule{Cost: policy.Cost{Func: &policy.CostFunc{After: func(policy.Attributes, *policy.Response) int64 { return 7 }}}}, "100/min debt 1000"},
		{"a function before", "100/min", policy.Rule{Cost: policy.Cost{Func: &policy.CostFunc{}}}, "100/min"},
		{"a debt of its own", "100/min debt 5", policy.Rule{Cost: afterwards}, "100/min debt 5"},
		{"no debt, as written", "100/min debt 0", policy.Rule{Cost: afterwards}, "100/min debt 0"},
		{"a cost that is known", "100/min", policy.Rule{}, "100/min"},
		{"bodies that are slowed down", "100MB/min", policy.Rule{Cost: afterwards, Shape: true}, "100MB/min"},
		{"a log", "100/min sliding-log", policy.Rule{Cost: afterwards}, "100/min sliding-log"},
		{"a window", "100/min fixed-window", policy.Rule{Cost: afterwards}, "100/min fixed-window"},
		{"the next waits", "100/min debt 5 next-waits", policy.Rule{Cost: afterwards}, "100/min debt 5 next-waits"},
		{"the largest quota", "8000000000000000/s", policy.Rule{Cost: afterwards}, "8000000000000000/s debt 1007199254740990"},
		{"years", "10/366day", policy.Rule{Cost: afterwards}, "10/366day debt 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rule.Counted(sluice.MustParseLimit(c.limit)); got != sluice.MustParseLimit(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
