// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// A model answers a prompt, and reports afterwards how many tokens it has used. The tokens
// that the answer may take are held meanwhile. If this process crashes they come back within
// ten minutes.
func ExampleLimiter_Hold() {
	ctx := context.Background()
	tokens, err := sluice.New(memstore.New(memstore.Options{}), "tokens", sluice.MustParseLimit("10000/day calendar UTC debt 10000"))
	if err != nil {
		fmt.Println(err)
		return
	}
	held, d, err := tokens.Hold(ctx, "ada", 4000, sluice.HoldOptions{TTL: 10 * time.Minute})
	if err != nil || !d.Allowed {
		fmt.Println(d, err)
		return
	}
	fmt.Println("held:", d.Spent, "left:", d.Remaining)

	d, err = held.Settle(ctx, 1200) // the answer has used fewer
	fmt.Println("used:", d.Spent, "left:", d.Remaining, err)

	d, err = held.Settle(ctx, 1200) // a repetition changes nothing
	fmt.Println("used:", d.Spent, "left:", d.Remaining, err)
	// Output:
	// held: 4000 left: 6000
	// used: 1200 left: 8800 <nil>
	// used: 1200 left: 8800 <nil>
}

// An order is paid once, however often its client repeats the request.
func ExampleHold() {
	ctx := context.Background()
	store := memstore.New(memstore.Options{})
	orders, err := sluice.Compile("orders", sluice.MustParseLimit("100/day calendar UTC"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := store.Take(ctx, sluice.Request{
			Charge: sluice.Charge{Plan: orders, Key: "ada", Cost: 1},
			Hold:   &sluice.Hold{ID: "order 17", TTL: time.Hour, Settled: true},
		})
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 99 <nil>
	// true 99 <nil>
	// true 99 <nil>
}
