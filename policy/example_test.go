// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
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
	eval := policy.Evaluator{Policy: p, Store: store}

	ctx := context.Background()
	request := policy.StaticAttributes{
		RequestMethod: http.MethodPost, RequestPath: "/login", Queries: map[string][]string{"user": {"ada"}}, Address: netip.MustParseAddr("203.0.113.9"),
	}
	var v policy.Verdict
	for attempt := range 7 {
		eval.Decide(ctx, &request, &v)
		if !v.Allowed {
			binding, _ := v.Binding()
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

func ExampleCompile_faults() {
	_, err := policy.Compile([]policy.Rule{{
		Name:  "Search",
		Match: policy.Match{Paths: []string{"/search//deep"}},
		Levels: []policy.Level{{
			By:     []policy.Part{policy.Path("id")},
			Limits: []policy.Limit{{Limit: sluice.Limit{Quota: 0, Window: time.Minute}}},
		}},
	}})
	fmt.Println(err)
	// Output:
	// policy: rule "Search": Name: "Search" must be 1 to 64 of a-z, 0-9, '.', '_' and '-'
	// policy: rule "Search": Match.Paths[0]: "/search//deep": can never match, as doubled slashes are removed from a request's path; use one
	// policy: rule "Search": Levels[0].Limits[0]: Quota: 0 must be 1 to 9007199254740991 units
}
