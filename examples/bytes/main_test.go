// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

// TestUploads: 100 MB come back in a minute, 10 MB in 6 s.
func TestUploads(t *testing.T) {
	acme, beta := rand.Text(), rand.Text() // of this run, as the limit outlives it
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rest     time.Duration // before the upload
			customer string
			size     int64
			wait     time.Duration
		}{
			{0, acme, 60e6, 0},
			{0, acme, 30e6, 0},
			{0, acme, 20e6, 6 * time.Second}, // 10 MB are left
			{0, acme, 10e6, 0},               // which fit
			{0, beta, 100e6, 0},
			{6*time.Second - time.Microsecond, acme, 10e6, time.Microsecond},
			{time.Microsecond, acme, 10e6, 0},
			{0, acme, 100e6 + 1, sluice.MaxRetryAfter}, // never fits
		} {
			time.Sleep(c.rest)
			if got, err := mayUpload(t.Context(), c.customer, c.size); err != nil || got != c.wait {
				t.Errorf("%d bytes of %s: wait %v, %v; want %v", c.size, c.customer, got, err, c.wait)
			}
		}
	})
}
