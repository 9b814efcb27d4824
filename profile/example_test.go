// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
)

// A client of another's API reports before it asks whether it would be denied.
func ExampleGet() {
	p, ok := profile.Get("shopify-rest")
	if !ok {
		return
	}
	lim, err := sluice.New(memstore.New(memstore.Options{}), "orders", p.Limits...)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := lim.Peek(context.Background(), "shop", 41)
	fmt.Println(p.Limits, d.Allowed, d.Remaining, err)
	fmt.Println(p.Status, p.Differs[0])
	// Output:
	// [2/s burst 40 leaky-bucket nodelay] false 40 <nil>
	// 429 Retry-After is of whole seconds here (1.0)
}
