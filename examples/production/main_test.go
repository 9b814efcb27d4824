// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// running is a service that runs.
type running struct{ url string }

// start runs the service until the test ends.
func start(t *testing.T, redisURL string) running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener, redisURL) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return running{"http://" + listener.Addr().String()}
}

func (r running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// passed is how many of n requests are answered 200; the others must be denied.
func (r running) passed(t *testing.T, n int) (passed int) {
	t.Helper()
	for range n {
		switch status, body := r.get(t, "/"); status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("status %d: %s", status, body)
		}
	}
	return passed
}

// await waits until the metrics say so.
func (r running) await(t *testing.T, line string) {
	t.Helper()
	testkit.Until(t, line, func() bool {
		_, body := r.get(t, "/metrics")
		is := strings.Contains(body, line+"\n")
		if !is {
			r.get(t, "/") // by requests it is noticed how the store is
		}
		return is
	})
}

// TestTwoShareALimit: two processes admit what one may, and count it.
func TestTwoShareALimit(t *testing.T) {
	// On a busy machine Redis may answer too late, and a process then uses its own share, too.
	testkit.Until(t, "Redis to decide every request", func() bool { return twoShareALimit(t) })
}

// twoShareALimit reports whether Redis has decided every request.
func twoShareALimit(t *testing.T) bool {
	t.Helper()
	redis := redistest.Start(t, redistest.Redis(t))
	a, b := start(t, redis.URL()), start(t, redis.URL())
	a.await(t, `sluice_store_up{store="redis"} 1`)
	got := a.passed(t, 75) + b.passed(t, 75)
	_, other := a.get(t, "/metrics")
	_, body := b.get(t, "/metrics")
	for _, page := range []string{other, body} {
		if !strings.Contains(page, `sluice_degraded_total{policy="local",store="redis"} 0`+"\n") {
			return false
		}
	}
	if got != 100 {
		t.Errorf("%d requests passed, want the 100 of an hour", got)
	}
	for _, want := range []string{`sluice_decisions_total{limit="token-bucket.hour",scope="per-address",verdict="denied"}`, `sluice_requests_total{verdict="allowed"}`, "sluice_http_request_duration_seconds_count"} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s:\n%s", want, body)
		}
	}
	return true
}

// TestRedisUnavailable: a process starts without Redis, keeps its share of the limit, and uses
// Redis once it is there.
func TestRedisUnavailable(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	redis.Kill(t)
	s := start(t, redis.URL())
	if got := s.passed(t, 150); got != 33 {
		t.Errorf("%d requests passed, want the 33 of its share of an hour", got)
	}
	s.await(t, `sluice_store_up{store="redis"} 0`)
	redis.Run(t)
	s.await(t, `sluice_store_up{store="redis"} 1`)
}

// TestBadURL: the service does not start, and says why.
func TestBadURL(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(t.Context(), listener, ""); err == nil || !strings.Contains(err.Error(), "redis://127.0.0.1:6379") {
		t.Errorf("got %v, want an error that shows a URL", err)
	}
}
