// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
)

func Example() {
	c, err := config.Parse("sluice.yaml", []byte(`
rules:
  - name: posts
    match: {method: POST, path: /posts}
    by: ip
    limits: 5/min fixed-window
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Policy.Rules()[0].Name, "on line", c.Line(0))
	results, err := config.RunCases(context.Background(), c, "cases.yaml", []byte(`
cases:
  - name: the sixth post of a minute is denied
    given: {request: POST /posts, from: 203.0.113.7}
    steps:
      - {given: {times: 5}, expect: allowed}
      - {after: 10s, expect: {verdict: denied, rule: posts, retry_after: 50s}}
      - {after: 50s, expect: denied}
`), func(now func() time.Time) sluice.Store { return memstore.New(memstore.Options{Now: now}) })
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := results.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// posts on line 3
	// FAIL the sixth post of a minute is denied
	//      cases.yaml:8:30: step 3: want 1 denied, got 1 allowed (the last was allowed with 4 left of rule posts, fixed-window.min)
	// cases.yaml: 0 of 1 cases hold
}

func ExampleParse_faults() {
	_, err := config.Parse("sluice.yaml", []byte(`
rules:
  - name: posts
    match: {method: post}
    limit: 5/min
  - name: search
    limits: [10/s burst, 100/fortnight]
`))
	fmt.Println(err)
	// Output:
	// sluice.yaml:4:21: "post" is not a method; methods are written in capitals, such as POST
	// sluice.yaml:5:5: a rule has no key "limit"; use limits
	// sluice.yaml:7:24: limit "10/s burst": burst needs a number of units behind it
	// sluice.yaml:7:30: limit "100/fortnight": "fortnight" is not a window; use a number and one of us, ms, s, min, h, day, week, or month and year with a calendar
}
