// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/lease"
	"github.com/sluicegate/sluice/memstore"
)

func Example() {
	clock := storekit.NewClock() // in a program leave Now nil
	store := memstore.New(memstore.Options{Now: clock.Now})
	node := lease.Wrap(store, lease.Options{
		Of:  func(p *sluice.Plan) (lease.Terms, bool) { return lease.Terms{}, p.Scope() == "downloads" },
		Now: clock.Now,
	})
	downloads, err := sluice.New(node, "downloads", sluice.PerSecond(1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 500 {
		if _, err := downloads.Take(context.Background(), "everyone", 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	stats := node.Stats()
	fmt.Printf("decided here: %v, asked of the store: %v\n", stats.Allowed > 400, stats.Asked < 100)
	if err := node.Return(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: decided here: true, asked of the store: true
}

func ExampleUnder() {
	short, err := lease.Under(sluice.MustParseLimit("1000/s sliding-log"), lease.Terms{TTL: 25 * time.Millisecond}, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(short)
	// Output: never over; under by at most 25 of 1000 requests per 1s, and by the up to 80 that 8 nodes hold for up to 25ms
}
