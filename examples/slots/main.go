// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command slots runs at most 2 exports of a customer at once. The third waits until one
// is done.
//
//	go -C examples run ./slots
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// begin
var exports = sluice.Must(sluice.NewSlots(memstore.New(memstore.Options{}), "exports", sluice.SlotLimit{Cap: 2, TTL: 10 * time.Second}))

// export works when a slot is free. The slot is renewed as long as work takes.
func export(ctx context.Context, customer string, work func(context.Context) error) error {
	held, release, err := exports.Wait(ctx, customer, 1)
	if err != nil {
		return err
	}
	defer release()
	return work(held)
}

// end

func main() {
	start := time.Now()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			err := export(context.Background(), "acme", func(context.Context) error {
				fmt.Printf("%.1f s: export %d\n", time.Since(start).Seconds(), n+1)
				time.Sleep(time.Second)
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
}
