// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httpclient"
)

// TestTransportPace: a client gets its quota under each algorithm, even one of least capacity,
// and never sends a request before there is a unit.
func TestTransportPace(t *testing.T) {
	const n = 30
	for _, c := range []struct {
		limit string
		cost  int64         // of each request, 1 if 0
		most  time.Duration // by then all n must have passed
	}{
		{"10/s leaky-bucket", 0, 2900 * time.Millisecond},
		{"10/s leaky-bucket nodelay", 0, 2900 * time.Millisecond},
		{"10/s burst 1", 0, 2900 * time.Millisecond},
		{"3/s burst 1", 0, 9667 * time.Millisecond},
		{"7/min burst 1", 0, 249 * time.Second},
		{"2/3s leaky-bucket", 0, 44 * time.Second},
		{"65537/min leaky-bucket", 0, 27 * time.Millisecond},
		{"1000/s leaky-bucket burst 2", 0, 60 * time.Millisecond},
		{"10/s burst 2", 0, 4 * time.Second},
		{"1/s burst 1", 0, 29 * time.Second},
		{"100/h burst 1", 0, 29 * 36 * time.Second},
		{"10/s burst 5", 5, 15 * time.Second},
		// A request that would be too early is not sent, however slow that makes the client.
		{"10/s burst 1 debt 5", 0, 30 * time.Second},
		{"10/s burst 5 debt 20", 5, 30 * time.Second},
		{"10/s interval-refill", 0, 30 * time.Second},
		{"10/s burst 1 interval-refill", 0, 30 * time.Second},
		{"10/s initial 0", 0, 30 * time.Second},
		{"10/s fixed-window", 0, 30 * time.Second},
		{"1/s fixed-window", 0, 30 * time.Second},
		{"10/min fixed-window", 0, 30 * time.Minute},
		{"10/s fixed-window", 10, 30 * time.Second},
		{"10/3s fixed-window", 5, 90 * time.Second},
		{"10/s sliding-log", 0, 30 * time.Second},
		{"1/s sliding-log", 0, 30 * time.Second},
		{"3/s sliding-log", 0, 30 * time.Second},
		{"10/s sliding-log", 10, 30 * time.Second},
		{"10/s sliding-counter", 0, 60 * time.Second},
		{"10/s sliding-histogram", 5, 60 * time.Second},
	} {
		for _, latency := range []time.Duration{0, 7 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s cost %d latency %v", c.limit, max(c.cost, 1), latency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newCostlyCounter(t, c.limit, max(c.cost, 1))
					far := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						time.Sleep(latency) // of the bubble
						h.ServeHTTP(w, r)
						time.Sleep(latency)
					})
					client := limited(t, far, httpclient.TransportOptions{MaxWait: time.Hour})
					time.Sleep(123456789 * time.Nanosecond) // so that windows do not begin at their edge
					start := time.Now()
					for range n {
						if status, err := get(t.Context(), client, "http://api.test/"); err != nil || status != http.StatusOK {
							t.Fatalf("got %d, %v; want 200", status, err)
						}
					}
					if got := h.denied.Load(); got != 0 && c.limit != "10/s initial 0" { // its first has no unit
						t.Errorf("%d requests were denied; want 0", got)
					}
					if took := time.Since(start); took > c.most+n*2*latency {
						t.Errorf("took %v; want at most %v", took, c.most)
					}
				})
			})
		}
	}
}
