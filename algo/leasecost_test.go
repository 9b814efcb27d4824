// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

func TestLeaseCost(t *testing.T) {
	terms := sluice.LeaseTerms{TTL: 50 * time.Millisecond, Units: 10}
	for _, c := range []struct {
		limit, want string
	}{
		{"1000/s sliding-log", "never over; under by at most 48 of 1000 requests per 1s, and by the up to 80 that 8 nodes hold for up to 50ms"},
		{"1000/s burst 200", "never over; under by at most 50 of a burst of 200 requests, and by the up to 80 that 8 nodes hold for up to 50ms"},
		{"1000/s fixed-window", "never over; under by at most the up to 80 that 8 nodes hold for up to 50ms"},
		{"20/s sliding-log", "never over; under by at most 1 of 20 requests per 1s, and by the up to 20 that 8 nodes hold for up to 50ms"},
	} {
		t.Run(c.limit, func(t *testing.T) {
			all, err := algo.LeaseCost(testkit.Plan(t, "lease", c.limit), terms, 8)
			if err != nil {
				t.Fatal(err)
			}
			if got := all[0].String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := algo.LeaseCost(testkit.Plan(t, "lease", "10/s"), terms, 0); err == nil {
		t.Error("0 nodes: no error")
	}
	if _, err := algo.LeaseCost(testkit.Plan(t, "lease", "10/s burst 1"), terms, 1); err == nil {
		t.Error("a limit that cannot be leased: no error")
	}
}

func ExampleLeaseCost() {
	plan, err := sluice.Compile("hot", sluice.MustParseLimit("1000/s sliding-log"))
	if err != nil {
		fmt.Println(err)
		return
	}
	short, err := algo.LeaseCost(plan, sluice.LeaseTerms{TTL: 25 * time.Millisecond}, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(short[0])
	// Output: never over; under by at most 25 of 1000 requests per 1s, and by the up to 80 that 8 nodes hold for up to 25ms
}
