// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/lease"
	"github.com/sluicegate/sluice/memstore"
)

func Example() {
	clock := storekit.NewClock() // in a program leave Now nil
	store := memstore.New(memstore.Options{Now: clock.Now})
	node := lease.Wrap(store, lease.Options{
		Of:  func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{}, p.Scope() == "downloads" },
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
