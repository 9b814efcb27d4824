// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestHold: a leaky bucket delays requests in order, and denies at once a request that
// exceeds its depth or max_wait. With max_wait other limits delay, too.
func TestHold(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		want       []int // after how many seconds each of six passes; -1: denied
	}{
		{"as deep as the bucket", "limits: 1/s leaky-bucket burst 4", []int{0, 1, 2, 3, -1, -1}},
		{"no longer than max_wait", "limits: 1/s leaky-bucket burst 4, max_wait: 2s", []int{0, 1, 2, -1, -1, -1}},
		{"a bucket", "limits: 5/s burst 5, cost: 5, max_wait: 2s", []int{0, 1, 2, -1, -1, -1}},
		{"without max_wait", "limits: 5/s burst 5, cost: 5", []int{0, -1, -1, -1, -1, -1}},
		{"a window", "limits: 2/2s fixed-window, max_wait: 2s", []int{0, 0, 2, 2, -1, -1}},
		{"a log", "limits: 2/2s sliding-log, max_wait: 3s", []int{0, 0, 2, 2, -1, -1}},
		{"a counter", "limits: 2/2s sliding-counter conservative, max_wait: 4s", []int{0, 0, 4, 4, -1, -1}},
		{"a histogram", "limits: 2/2s sliding-histogram, max_wait: 2s", []int{0, 0, 2, 2, -1, -1}},
		{"in several levels", "levels: [{name: one, by: ip, limits: 1/s burst 1}, {name: two, limits: 2/4s sliding-log}], max_wait: 4s", []int{0, 1, 4, -1, -1, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := evaluate.NewQueue(100)
				g := newGuard(t, "  - {name: a, "+c.rule+"}", echo, httplimit.Options{Queue: queue})
				start := time.Now()
				var clients sync.WaitGroup
				for _, seconds := range c.want {
					want := time.Duration(seconds) * time.Second
					clients.Go(func() {
						w := answer(g, requestOf(t, "GET", "/", ""))
						got := time.Since(start)
						switch {
						case want < 0 && (w.Code != http.StatusTooManyRequests || got != 0):
							t.Errorf("got %d after %v, want 429 at once", w.Code, got)
						case want >= 0 && (w.Code != http.StatusOK || got != want):
							t.Errorf("got %d after %v, want 200 after %v", w.Code, got, want)
						}
					})
					synctest.Wait()
				}
				clients.Wait()
				if got := queue.Stats().Held; got != 0 {
					t.Errorf("%d are held at the end", got)
				}
			})
		})
	}
}

// TestHangUpFreesPlace: the units of a delayed client that leaves are given back to the next
// request.
func TestHangUpFreesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := evaluate.NewQueue(100)
		g := newGuard(t, "  - {name: a, limits: 1/s leaky-bucket burst 3}", echo, httplimit.Options{Queue: queue})
		answer(g, requestOf(t, "GET", "/", "")) // at once
		var clients sync.WaitGroup
		hang, gone := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), hang} {
			r := requestOf(t, "GET", "/", "").WithContext(ctx)
			clients.Go(func() { answer(g, r) })
			synctest.Wait()
		}
		if got := queue.Stats().Held; got != 2 {
			t.Fatalf("%d are held, want 2", got)
		}
		if w := answer(g, requestOf(t, "GET", "/", "")); w.Code != http.StatusTooManyRequests {
			t.Errorf("while the bucket is full: got %d, want 429", w.Code)
		}
		gone()
		synctest.Wait()
		if got := queue.Stats().Held; got != 1 {
			t.Errorf("after one hung up %d are held, want 1", got)
		}
		start := time.Now()
		if w := answer(g, requestOf(t, "GET", "/", "")); w.Code != http.StatusOK || time.Since(start) != 2*time.Second {
			t.Errorf("in place of the one that hung up: got %d after %v, want 200 after 2s", w.Code, time.Since(start))
		}
		clients.Wait()
	})
}

// TestQueueIsBounded: without a place in the queue no request is delayed: the answer is 503,
// and nothing is charged.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := evaluate.NewQueue(2)
		g := newGuard(t, "  - {name: a, limits: 1/s leaky-bucket burst 10}", echo, httplimit.Options{Queue: queue})
		var clients sync.WaitGroup
		var passed, full atomic.Int64
		for range 6 {
			clients.Go(func() {
				switch w := answer(g, requestOf(t, "GET", "/", "")); w.Code {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusServiceUnavailable:
					if w.Header().Get("Retry-After") == "" {
						t.Error("no Retry-After")
					}
					full.Add(1)
				default:
					t.Errorf("got %d", w.Code)
				}
			})
			synctest.Wait()
		}
		start := time.Now()
		clients.Wait()
		if passed.Load() != 3 || full.Load() != 3 || time.Since(start) != 2*time.Second {
			t.Errorf("%d passed, %d found no place, in %v; want 3, 3 in 2s", passed.Load(), full.Load(), time.Since(start))
		}
	})
}

// TestInFlight: slots are held while requests run, however long, and free afterwards, even
// after a panic.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := newGuard(t, "  - {name: a, by: ip, in_flight: {cap: 2, ttl: 30s}}", func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic(http.ErrAbortHandler)
			}
			<-release
		}, httplimit.Options{})
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				if w := answer(g, requestOf(t, "GET", "/", "")); w.Code != http.StatusOK {
					t.Errorf("got %d", w.Code)
				}
			})
		}
		synctest.Wait()
		time.Sleep(10 * time.Minute) // many leases
		w := answer(g, requestOf(t, "GET", "/", ""))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "" {
			t.Errorf("the third: got %d, Retry-After %q, want 429 and none", w.Code, w.Header().Get("Retry-After"))
		}
		close(release)
		clients.Wait()
		for range 3 {
			func() {
				defer func() {
					if err, isError := recover().(error); !isError || !errors.Is(err, http.ErrAbortHandler) {
						t.Errorf("panic: %v", err)
					}
				}()
				answer(g, requestOf(t, "GET", "/panic", ""))
			}()
		}
		if w := answer(g, requestOf(t, "GET", "/", "")); w.Code != http.StatusOK {
			t.Errorf("after all have ended: got %d, want 200", w.Code)
		}
	})
}
