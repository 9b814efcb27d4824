// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestHeldBounds: no key takes all places of delayed requests, the bytes read ahead are
// bounded, and the metrics show both; a place is free when its client has left.
func TestHeldBounds(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, "max_delayed: 3\nmax_delayed_per_key: 2\nmax_read_ahead: 65536\nrules: [{name: a, by: query.userId, limits: 1/min leaky-bucket burst 100}]\n", servetest.Stopped)
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	hold := func(u string, want float64) {
		t.Helper()
		clients.Go(func() {
			r := servetest.Request(ctx, t, http.MethodPost, s.URL+"/?userId="+u, strings.NewReader(strings.Repeat("x", 3000)))
			if resp, err := http.DefaultClient.Do(r); err == nil {
				t.Errorf("%s: got %d, and was to be held", u, resp.StatusCode)
				resp.Body.Close() //nolint:errcheck // its body is not needed
			}
		})
		awaitHeld(t, s, want) //nolint:contextcheck // the page is asked for the test
	}
	for _, u := range []string{"a", "b"} {
		s.Want(t, http.StatusOK, "/?userId="+u)
	}
	refused := func(u, detail, reason string) {
		t.Helper()
		got := s.Get(t, "/?userId="+u)
		if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, detail) || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %q %q, want 503 and %q", u, got.Status, got.Body, got.Header, detail)
		}
		if n := s.Metrics(t)[`sluice_delays_refused_total{reason="`+reason+`"}`]; n != 1 {
			t.Errorf("%v in metrics for %s, want 1", n, reason)
		}
	}
	hold("a", 1)
	hold("a", 2)
	refused("a", "under this limit", "share")
	hold("b", 3)
	refused("b", "too many requests wait", "full")
	var got float64
	testkit.Until(t, "bytes to be read ahead", func() bool {
		got = s.Metrics(t)["sluice_read_ahead_bytes"]
		return got > 0
	})
	if got > 65536 {
		t.Errorf("%v bytes are kept, want 65536 at most", got)
	}
}

// awaitHeld waits until so many requests are delayed.
func awaitHeld(t *testing.T, r *servetest.Gateway, want float64) {
	t.Helper()
	testkit.Until(t, fmt.Sprint(want, " delayed requests"), func() bool { return r.Metrics(t)["sluice_delayed_requests"] == want })
}
