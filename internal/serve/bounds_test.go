// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestHeldBounds: no key takes all places of requests that are delayed, what is
// read ahead is bounded, and the metrics say so; a place is free when its client
// has gone.
func TestHeldBounds(t *testing.T) {
	s := start(t, "max_delayed: 3\nmax_delayed_per_key: 2\nmax_read_ahead: 65536\nrules: [{name: a, by: query.userId, limits: 1/min leaky-bucket burst 100}]\n", stopped)
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	hold := func(u string, want float64) {
		t.Helper()
		clients.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/?userId="+u, strings.NewReader(strings.Repeat("x", 3000)))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(r); err == nil {
				t.Errorf("%s: got %d, and was to be held", u, resp.StatusCode)
				resp.Body.Close() //nolint:errcheck // nothing of it is read
			}
		})
		s.awaitHeld(t, want) //nolint:contextcheck // the page is asked for the test
	}
	for _, u := range []string{"a", "b"} {
		if got := s.get(t, "/?userId="+u); got.status != http.StatusOK {
			t.Fatalf("got %d", got.status)
		}
	}
	refused := func(u, detail, reason string) {
		t.Helper()
		got := s.get(t, "/?userId="+u)
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, detail) || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %q %q, want 503 and %q", u, got.status, got.body, got.header, detail)
		}
		if n := s.metrics(t)[`sluice_delays_refused_total{reason="`+reason+`"}`]; n != 1 {
			t.Errorf("%v in metrics for %s, want 1", n, reason)
		}
	}
	hold("a", 1)
	hold("a", 2)
	refused("a", "under this limit", "share")
	hold("b", 3)
	refused("b", "too many requests wait", "full")
	if got := s.metrics(t)["sluice_read_ahead_bytes"]; got <= 0 || got > 65536 {
		t.Errorf("%v bytes are kept, want some, and 65536 at most", got)
	}
}

// awaitHeld waits until so many requests are delayed.
func (r *running) awaitHeld(t *testing.T, want float64) {
	t.Helper()
	for r.metrics(t)["sluice_delayed_requests"] != want && t.Context().Err() == nil && !t.Failed() {
	}
}
