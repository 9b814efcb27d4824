// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httpclient"
)

// TestTransportAtOnce: while no answer forbids it requests are sent concurrently, however slow
// one of them is.
func TestTransportAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		idle   time.Duration
		fields []string
	}{
		{"at once", 0, []string{`RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=99;t=1`}},
		{"idle for long", 11 * time.Minute, []string{`RateLimit-Policy: "a";q=100;w=1`, `RateLimit: "a";r=99;t=1`}},
		{"idle for a day", 24 * time.Hour, []string{`RateLimit: "a";r=99;t=1`}},
		{"a policy and no more", 0, []string{`RateLimit-Policy: "a";q=100;w=60`}},
		{"a policy and no more, idle for long", 11 * time.Minute, []string{`RateLimit-Policy: "a";q=100;w=60`}},
		{"a limit of bytes", 0, []string{`RateLimit-Policy: "a";q=1000000;w=60;qu="content-bytes"`, `RateLimit: "a";r=999000;t=60`}},
		{"a limit of bytes, and one of requests", 11 * time.Minute, []string{
			`RateLimit-Policy: "a";q=1000000;w=60;qu="content-bytes", "b";q=100;w=1`, `RateLimit: "b";r=99;t=1`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/slow" {
						time.Sleep(2 * time.Minute)
					}
					answer(200, c.fields...)(w, r)
				})
				client := limited(t, h, httpclient.TransportOptions{})
				if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
					t.Fatalf("got %d, %v", status, err)
				}
				time.Sleep(c.idle)
				var all sync.WaitGroup
				all.Go(func() {
					if status, err := get(t.Context(), client, "http://api.test/slow"); status != 200 || err != nil {
						t.Errorf("slow: got %d, %v", status, err)
					}
				})
				time.Sleep(time.Second)
				began := time.Now()
				for range 3 {
					if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
						t.Errorf("beside it: got %d, %v", status, err)
					}
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("three requests beside a slow one took %v", took)
				}
				all.Wait()
			})
		})
	}
}
