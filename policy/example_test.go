// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

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
