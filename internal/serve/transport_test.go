// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/internal/serve/servetest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestTransport: a file chooses the transport, another file another, and connections
// are counted alike. They are distinguished by hints without end, of which the
// synchronous one takes a hundred.
func TestTransport(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			for range 101 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(up.Close)
	file := func(transport string) string {
		return fmt.Sprintf("upstream: {url: %q%s}\nrules: [{name: a, limits: 1000/min}]\n", up.URL, transport)
	}
	s := servetest.Start(t, file(""), servetest.Stopped)
	open := func() float64 { return s.Metrics(t)["sluice_upstream_connections"] }
	for _, c := range []struct {
		transport string
		hints     int
	}{
		{", transport: sync", http.StatusBadGateway},
		{"", http.StatusAccepted},
		{", transport: sync", http.StatusBadGateway},
		{", transport: async", http.StatusAccepted},
	} {
		s.ChangeTo(t, file(c.transport))
		if got := s.Get(t, "/hints").Status; got != c.hints {
			t.Errorf("%q: got %d behind hints, want %d", c.transport, got, c.hints)
		}
		for range 3 {
			if got := s.Get(t, "/").Status; got != http.StatusAccepted {
				t.Errorf("%q: got %d", c.transport, got)
			}
		}
		// One, or another that was dialed before the first was free again; none of the transport before.
		testkit.Until(t, "connections to be kept", func() bool { return open() >= 1 && open() <= 4 })
	}
}
