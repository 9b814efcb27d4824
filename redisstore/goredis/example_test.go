// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// A program uses its own go-redis client for limits.
func Example() { //nolint:testableexamples // it needs a server
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := errors.Join(store.Close(), client.Close()); err != nil { // in this order
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
