// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command bytes lets each customer upload 100 MB a minute: a file costs its size, and is
// taken whole or not at all. Where a size is known only afterwards, see example video.
//
//	go -C examples run ./bytes
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
var uploads = sluice.Must(sluice.New(memstore.New(memstore.Options{}), "uploads", sluice.MustParseLimit("100MB/min")))

// mayUpload spends the bytes, or returns how long the customer must wait until they fit.
func mayUpload(ctx context.Context, customer string, bytes int64) (wait time.Duration, err error) {
	d, err := uploads.Take(ctx, customer, bytes)
	return d.RetryAfter, err
}

// end

func main() {
	for _, size := range []int64{60e6, 30e6, 20e6, 10e6} {
		wait, err := mayUpload(context.Background(), "acme", size)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d MB: wait %v\n", size/1e6, wait.Round(time.Second))
	}
}
