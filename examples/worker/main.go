// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command worker sends jobs to a third party that takes 10 a second: each call waits
// for its turn.
//
//	go -C examples run ./worker
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
var partner = sluice.Must(sluice.New(memstore.New(memstore.Options{}), "partner", sluice.PerSecond(10).WithBurst(1)))

// call sends a job when its turn has come. It returns an error at once if that is after
// ctx's deadline.
func call(ctx context.Context, job int, send func(int)) error {
	if _, err := partner.Wait(ctx, "", 1); err != nil {
		return err
	}
	send(job)
	return nil
}

// end

func main() {
	start := time.Now()
	var workers sync.WaitGroup
	for job := range 21 {
		workers.Go(func() {
			err := call(context.Background(), job, func(job int) {
				fmt.Printf("%.1f s: job %d\n", time.Since(start).Seconds(), job)
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	workers.Wait()
}
