// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestCostInATrailer: the cost of a stream may come in a trailer that its header announces.
// Where the client leaves before, the estimate stands.
func TestCostInATrailer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, want string }{
		{"/announced", "960"},
		{"/not-announced", "900"},
		{"/left", "900"},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			s := servetest.Start(t, "upstream: "+servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
				name := http.TrailerPrefix + "X-Tokens"
				if r.URL.Path != "/not-announced" {
					w.Header().Set("Trailer", "X-Tokens")
					name = "X-Tokens"
				}
				w.Header().Set("Content-Type", "text/event-stream")
				if _, err := io.WriteString(w, "data: hello\n\n"); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				if r.URL.Path == "/left" {
					<-r.Context().Done()
				}
				w.Header().Set(name, "40")
			})+"\nrules: [{name: tokens, by: ip, limits: 1000/day fixed-window, cost: {response_header: X-Tokens, most: 500, estimate: 100}}]\n", servetest.Stopped)
			conn, r := dialGateway(t, s, "GET "+c.path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			for line := ""; !strings.HasPrefix(line, "data:"); {
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if c.path != "/left" {
				if _, err := io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "the request to end", func() bool {
				for name, n := range s.Metrics(t) {
					if strings.HasPrefix(name, "sluice_http_requests_in_flight{") {
						return n == 0
					}
				}
				return false
			})
			body := servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?ip=127.0.0.1").Body
			if !strings.Contains(body, `"remaining": `+c.want+",") {
				t.Errorf("want %s left, got %s", c.want, body)
			}
		})
	}
}
