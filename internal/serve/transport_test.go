// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/serve/servetest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestTransport: a file chooses the transport, another file another, and connections
// are counted alike. They are distinguished by hints without end, of which the
// synchronous one takes a hundred.
func TestTransport(t *testing.T) {
	t.Parallel()
	var conns sync.Map // those that the upstream has open
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			for range 101 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	up.Config.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			conns.Store(c, true)
		case http.StateClosed:
			conns.Delete(c)
		}
	}
	up.Start()
	t.Cleanup(up.Close)
	file := func(transport string) string {
		return fmt.Sprintf("upstream: {url: %q%s}\nrules: [{name: a, limits: 1000/min}]\n", up.URL, transport)
	}
	s := servetest.Start(t, file(""), servetest.Stopped)
	for _, c := range []struct {
		transport string
		hints     int
	}{
		{", transport: sync", http.StatusBadGateway},
		{"", http.StatusAccepted},
		{", transport: sync", http.StatusBadGateway},
		{", transport: async", http.StatusAccepted},
	} {
		before := maps.Collect(conns.Range)
		s.ChangeTo(t, file(c.transport))
		if got := s.Get(t, "/hints").Status; got != c.hints {
			t.Errorf("%q: got %d behind hints, want %d", c.transport, got, c.hints)
		}
		for range 3 {
			if got := s.Get(t, "/").Status; got != http.StatusAccepted {
				t.Errorf("%q: got %d", c.transport, got)
			}
		}
		testkit.Until(t, "the connections before to be closed, and others to be kept and counted", func() bool {
			open, kept := maps.Collect(conns.Range), s.Metrics(t)["sluice_upstream_connections"]
			for conn := range before {
				if _, ok := open[conn]; ok {
					return false
				}
			}
			return kept >= 1 && kept == float64(len(open))
		})
	}
}
