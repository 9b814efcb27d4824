// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// A limit that all processes share.
func Example() { //nolint:testableexamples // it needs a server
	store, err := rueidisstore.Open(context.Background(), os.Getenv("REDIS_URL"), redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Print(err)
		}
	}()
	logins, err := sluice.New(store, "login", sluice.PerMinute(5))
	if err != nil {
		log.Print(err)
		return
	}
	d, err := logins.Take(context.Background(), "user-42", 1)
	if err != nil {
		log.Print(err) // let it pass or not, as you decide
		return
	}
	fmt.Println(d.Allowed, d.Remaining)
}
