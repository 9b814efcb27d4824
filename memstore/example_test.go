// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func Example() {
	store := memstore.New(memstore.Options{})
	login, err := sluice.New(store, "login", sluice.PerDay(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := login.Take(context.Background(), "alice", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A clean stop keeps all states.
func ExampleStore_Snapshot() {
	before := memstore.New(memstore.Options{})
	limit := sluice.PerDay(1)
	login, err := sluice.New(before, "login", limit)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := login.Take(context.Background(), "alice", 1); err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := before.Snapshot(&file); err != nil {
		log.Fatal(err)
	}

	after := memstore.New(memstore.Options{})
	if err := after.Restore(&file); err != nil {
		log.Fatal(err)
	}
	login, err = sluice.New(after, "login", limit)
	if err != nil {
		log.Fatal(err)
	}
	d, err := login.Take(context.Background(), "alice", 1)
	fmt.Println(d.Allowed, err)
	// Output: false <nil>
}
