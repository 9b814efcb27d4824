// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"

	"github.com/sluicegate/sluice/config"
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
	// Output: posts on line 3
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
