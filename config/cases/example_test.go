// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
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
	results, err := cases.Run(context.Background(), c, "cases.yaml", []byte(`
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
	// FAIL the sixth post of a minute is denied
	//      cases.yaml:8:30: step 3: want 1 denied, got 1 allowed (the last was allowed with 4 left of rule posts, fixed-window.min)
	// cases.yaml: 0 of 1 cases hold
}
