// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command redis sends each customer 3 mails an hour. In production all processes count in
// one Redis; tests run the same code in memory.
//
//	REDIS_URL=redis://127.0.0.1:6379 go -C examples run ./redis
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// begin
func openLimit(ctx context.Context, redisURL string) (*sluice.Limiter, error) {
	store, err := rueidisstore.Open(ctx, redisURL, redisstore.Options{})
	if err != nil {
		return nil, err
	}
	return newLimit(store)
}

// newLimit takes any store: in a test, memstore.New(memstore.Options{}).
func newLimit(store sluice.Store) (*sluice.Limiter, error) {
	return sluice.New(store, "mails", sluice.PerHour(3))
}

// end

func main() {
	mails, err := openLimit(context.Background(), os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	for mail := range 4 {
		ok, err := mails.Allow(context.Background(), "acme")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("mail %d: %v\n", mail+1, ok)
	}
}
