// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command logins lets each user try to log in 5 times a minute, and each address
// 20 times. A try that one of the two limits denies counts under neither.
//
//	go -C examples run ./logins
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// begin
var (
	store     = memstore.New(memstore.Options{})
	users     = sluice.Must(sluice.New(store, "login-user", sluice.PerMinute(5)))
	addresses = sluice.Must(sluice.New(store, "login-ip", sluice.PerMinute(20)))
)

// mayTry counts a try, or returns how long the user must wait for the next.
func mayTry(ctx context.Context, user, ip string) (wait time.Duration, err error) {
	d, err := sluice.TakeAll(ctx, store, users.Of(user, 1), addresses.Of(ip, 1))
	return d.RetryAfter, err
}

// end

func main() {
	for try := range 6 {
		wait, err := mayTry(context.Background(), "ann", "192.0.2.1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("try %d: wait %v\n", try+1, wait.Round(time.Second))
	}
}
