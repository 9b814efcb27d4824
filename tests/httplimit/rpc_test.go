// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// TestRPCAnswers: a gRPC call over HTTP/2 is answered with a gRPC code, and other requests as
// usual.
func TestRPCAnswers(t *testing.T) {
	byKey := policy.NewRule("calls", policy.Header("X-Key"), sluice.PerHour(1))
	costly := policy.NewRule("calls", policy.Header("X-Key"), sluice.PerHour(1))
	costly.Cost = policy.Cost{Units: 2}
	down := policy.NewRule("calls", policy.Header("X-Key"), sluice.PerHour(1))
	down.Failure = sluice.FailClosed
	for _, c := range []struct {
		name     string
		rule     policy.Rule
		store    sluice.Store
		http1    bool
		method   string
		kind     string
		key      string
		spent    bool
		status   int
		code     string
		message  string
		pushback string // a number, "-1" or ""
	}{
		{name: "denied", rule: byKey, kind: "application/grpc", key: "k", spent: true, status: 200, code: "8", message: `the quota of the limit "calls" is used up`, pushback: "3600000"},
		{name: "without a key", rule: byKey, kind: "application/grpc+proto", status: 200, code: "3", message: "header X-Key is missing"},
		{name: "never fits", rule: costly, kind: "application/grpc", key: "k", status: 200, code: "8", pushback: "-1"},
		{name: "no store", rule: down, store: testkit.Failing(errAway), kind: "application/grpc", key: "k", status: 200, code: "14", pushback: "1000"},
		{name: "gRPC-Web", rule: byKey, kind: "application/grpc-web", key: "k", spent: true, status: 429},
		{name: "a page", rule: byKey, method: http.MethodGet, kind: "application/grpc", key: "k", spent: true, status: 429},
		{name: "HTTP/1.1", rule: byKey, http1: true, kind: "application/grpc", key: "k", spent: true, status: 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.store == nil {
				c.store = newStore(newClock())
			}
			mw, err := httplimit.New(httplimit.Options{Store: c.store, Rules: []policy.Rule{c.rule}, OnError: func(*http.Request, error) {}})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetHTTP1(c.http1)
			server.Config.Protocols.SetUnencryptedHTTP2(!c.http1)
			server.Start()
			t.Cleanup(server.Close)
			transport := &http.Transport{Protocols: server.Config.Protocols}
			t.Cleanup(transport.CloseIdleConnections)
			call := func() (int, http.Header) {
				req, err := http.NewRequestWithContext(t.Context(), cmp.Or(c.method, http.MethodPost), server.URL, strings.NewReader("message"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", c.kind)
				if c.key != "" {
					req.Header.Set("X-Key", c.key)
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
				return resp.StatusCode, resp.Header
			}
			if c.spent {
				call()
			}
			status, h := call()
			if status != c.status || h.Get("Grpc-Status") != c.code || !strings.Contains(h.Get("Grpc-Message"), c.message) || h.Get("Grpc-Retry-Pushback-Ms") != c.pushback {
				t.Errorf("got %d %v, want %+v", status, h, c)
			}
			if h.Get("Cache-Control") != "no-store" {
				t.Error("a cache may keep the answer")
			}
			if (h.Get("Content-Type") == "application/grpc") != (c.code != "") {
				t.Errorf("got content of %q", h.Get("Content-Type"))
			}
		})
	}
}
