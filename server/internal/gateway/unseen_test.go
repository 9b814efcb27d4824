// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// site is a Middleware with a Gateway behind it, on real sockets.
type site struct {
	url  string
	over chan struct{} // receives one value when a request is settled
}

func startGateway(t *testing.T, yaml, upstream string, opts gateway.Options) *site {
	t.Helper()
	opts.Log = slog.New(slog.DiscardHandler)
	next, err := gateway.New(upstream, opts)
	if err != nil {
		t.Fatal(err)
	}
	g := newMiddleware(t, httplimit.Options{Policy: rules(t, yaml), Store: memstore.New(memstore.Options{})}).Wrap(next)
	s := &site{over: make(chan struct{}, 100)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.over <- struct{}{} }()
		g.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		next.Close()
	})
	s.url = server.URL
	return s
}

func insecureClient() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// client returns a client of the site with a version of HTTP.
func (s *site) client(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: insecureClient()}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get returns the status of an answer.
func (s *site) get(t *testing.T, client *http.Client) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	<-s.over
	return resp.StatusCode
}

// hangUp sends a request and leaves once it has reached the upstream, if it does.
func (s *site) hangUp(t *testing.T, client *http.Client, there <-chan struct{}) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close() // the client is leaving
		}
	}()
	select {
	case <-there:
	case <-answered: // by the limit
	}
	leave()
	<-answered
	<-s.over
}

// TestHangUpsCount: a client that leaves before the response does not evade a rule that waits
// for it.
func TestHangUpsCount(t *testing.T) {
	for _, c := range []struct{ name, rule string }{
		{"failures", "when: {response: [401, 403]}"},
		{"failures, held", "when: {response: [401, 403], charge: first}"},
		{"successes", "when: {response: [200]}"},
	} {
		for _, h2 := range []bool{false, true} {
			name := c.name + " over HTTP/1"
			if h2 {
				name = c.name + " over HTTP/2"
			}
			t.Run(name, func(t *testing.T) {
				var processed atomic.Int32
				there, release := make(chan struct{}, 25), make(chan struct{})
				upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					processed.Add(1)
					there <- struct{}{}
					<-release // whether the client is there or not
					w.WriteHeader(http.StatusUnauthorized)
				}))
				defer upstream.Close()
				defer close(release)
				s := startGateway(t, "  - {name: a, by: ip, limits: 5/15min sliding-log, "+c.rule+"}", upstream.URL, gateway.Options{})
				client := s.client(t, h2)
				for range 25 {
					s.hangUp(t, client, there)
				}
				if got := processed.Load(); got != 5 {
					t.Errorf("25 clients hung up, %d were passed on: want 5", got)
				}
			})
		}
	}
}

// TestUnseenOutcomes: a request that the upstream may have executed counts although its
// response was not seen; a seen response that does not count, or a request that was never
// sent, does not.
func TestUnseenOutcomes(t *testing.T) {
	const rule = "  - {name: a, by: ip, limits: 2/15min sliding-log, when: {response: [401]HOLD}}"
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	broken := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	quiet := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name     string
		upstream http.HandlerFunc // nil: nobody listens
		opts     gateway.Options
		want     int
		counts   bool
	}{
		{"counts", answer(http.StatusUnauthorized), gateway.Options{}, http.StatusUnauthorized, true},
		{"does not count", answer(http.StatusOK), gateway.Options{}, http.StatusOK, false},
		{"502 of the upstream", answer(http.StatusBadGateway), gateway.Options{}, http.StatusBadGateway, false},
		{"504 of the upstream", answer(http.StatusGatewayTimeout), gateway.Options{}, http.StatusGatewayTimeout, true},
		{"breaks off", broken, gateway.Options{}, http.StatusBadGateway, true},
		{"takes too long", quiet, gateway.Options{ResponseTimeout: time.Millisecond}, http.StatusGatewayTimeout, true},
		{"refuses the connection", nil, gateway.Options{}, http.StatusBadGateway, false},
		{"cannot be reached in time", quiet, gateway.Options{Dial: dialLate}, http.StatusGatewayTimeout, false},
	} {
		for _, hold := range []string{"false", "true"} {
			t.Run(c.name+", hold "+hold, func(t *testing.T) {
				upstream := "http://127.0.0.1:1"
				if c.upstream != nil {
					server := httptest.NewServer(c.upstream)
					defer server.Close()
					upstream = server.URL
				}
				s := startGateway(t, strings.ReplaceAll(rule, "HOLD", map[string]string{"true": ", charge: first"}[hold]), upstream, c.opts)
				client := s.client(t, false)
				for n := range 4 {
					want := c.want
					if c.counts && n >= 2 {
						want = http.StatusTooManyRequests
					}
					if got := s.get(t, client); got != want {
						t.Errorf("request %d: status %d, want %d", n+1, got, want)
					}
				}
			})
		}
	}
}

// TestBrokenBodiesCount: neither does a client evade the rule that breaks off its body after
// the upstream has read enough of it.
func TestBrokenBodiesCount(t *testing.T) {
	var processed atomic.Int32
	there, release := make(chan struct{}, 10), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		processed.Add(1)
		there <- struct{}{}
		<-release
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer upstream.Close()
	defer close(release)
	s := startGateway(t, "  - {name: a, by: ip, limits: 2/15min sliding-log, when: {response: [401]}}", upstream.URL, gateway.Options{})
	for range 5 {
		conn := s.dial(t)
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npass\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-there:
			if _, err := io.WriteString(conn, "zz\r\n"); err != nil { // no chunk
				t.Error(err)
			}
			<-s.over
		case <-s.over: // by the limit
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := processed.Load(); got != 2 {
		t.Errorf("5 clients broke off, %d were passed on: want 2", got)
	}
}

// dial connects to the site over HTTP/1.
func (s *site) dial(t *testing.T) net.Conn {
	t.Helper()
	d := tls.Dialer{Config: insecureClient()}
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
