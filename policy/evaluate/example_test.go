// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// A rule for a log-in form: five failed attempts in 15 minutes, per client
// network and user.
func Example() {
	rules := []policy.Rule{{
		Name:  "login",
		Match: policy.Match{Methods: []string{"POST"}, Paths: []string{"/login"}},
		When:  &policy.When{Status: []policy.Status{policy.Code(401)}},
		Levels: []policy.Level{{
			By:     []policy.Part{policy.IP(), policy.Query("user")},
			Limits: []policy.Limit{{Limit: sluice.MustParseLimit("5/15min sliding-log")}},
		}},
	}}
	p, err := policy.Compile(rules)
	if err != nil {
		fmt.Println(err)
		return
	}

	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store := memstore.New(memstore.Options{Now: func() time.Time { return midnight }})
	eval := evaluate.Plain{Policy: p, Store: store}

	ctx := context.Background()
	request := policy.Request{
		Method: http.MethodPost, Path: "/login", Queries: map[string][]string{"user": {"ada"}}, Client: netip.MustParseAddr("203.0.113.9"),
	}
	var v evaluate.Verdict
	for attempt := range 7 {
		eval.Decide(ctx, request.Attributes(), &v)
		if !v.Allowed {
			binding, _ := v.Binding(nil)
			fmt.Printf("attempt %d denied by %s (%v) for %v\n", attempt+1, binding.Rule.Name, binding.Limit.Limit.Name, v.Decision.RetryAfter)
			continue
		}
		status := http.StatusUnauthorized
		if attempt == 2 {
			status = http.StatusOK // the right password, which does not count
		}
		if err := v.Settle(ctx, policy.Response{Status: status}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// attempt 7 denied by login (sliding-log.15min) for 15m0s
}
