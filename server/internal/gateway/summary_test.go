// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// reported is the part of a summary that a test compares.
func reported(s *httplimit.Summary) string {
	text := fmt.Sprintf("%v %d broken=%t sent=%d", s.Event.Verdict, s.Status, s.Broken, s.Written)
	if u := s.Upstream; u.URL != "" {
		text += fmt.Sprintf(" upstream %s %d bytes=%d failed=%t", u.Route, u.Status, u.Bytes, u.Err != nil)
	}
	return text
}

// observedSite is a server in front of an upstream, with an OnEnd.
func observedSite(t *testing.T, rule, upstream string) (url string, ends chan string, returned chan struct{}) {
	t.Helper()
	next, err := gateway.New(upstream, gateway.Options{ResponseTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Close)
	routes, err := gateway.NewRoutes(gateway.Route{Path: "/small", MaxBody: 3, Handler: next}, gateway.Route{Handler: next})
	if err != nil {
		t.Fatal(err)
	}
	ends = make(chan string, 10)
	mw := newMiddleware(t, httplimit.Options{
		Policy: rules(t, rule), Store: memstore.New(memstore.Options{}),
		OnEnd: func(_ *http.Request, s *httplimit.Summary) {
			if s.Began.IsZero() || s.Took <= 0 || s.Took < s.Upstream.Took || s.Upstream.Took < s.Upstream.Header {
				t.Errorf("began %v, took %v; at the upstream %v, its header %v", s.Began, s.Took, s.Upstream.Took, s.Upstream.Header)
			}
			ends <- reported(s)
		},
	})
	returned = make(chan struct{}, 10)
	handler := mw.Wrap(routes)
	server := httptest.NewUnstartedServer(gateway.WithDeadlines(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { returned <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}), time.Minute))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, ends, returned
}

func TestOnEnd(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			w.Header().Set("Content-Length", "10")
			write(t, w, "half")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
			panic(http.ErrAbortHandler)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/switch":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			write(t, conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n12345")
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		default:
			write(t, w, "hello")
		}
	}))
	defer upstream.Close()
	for _, c := range []struct{ name, upstream, rule, path, want string }{
		{"passed", upstream.URL, "limits: 9/min", "/", "allowed 200 broken=false sent=5 upstream  200 bytes=5 failed=false"},
		{"by a route", upstream.URL, "limits: 9/min", "/small", "allowed 200 broken=false sent=5 upstream /small 200 bytes=5 failed=false"},
		{"too large", upstream.URL, "limits: 9/min", "/small?long", "allowed 413 broken=false sent=124"},
		{"status of the upstream", upstream.URL, "limits: 9/min", "/missing", "allowed 404 broken=false sent=0 upstream  404 bytes=0 failed=false"},
		{"settled", upstream.URL, "limits: 9/min, when: {response: [401]}", "/", "allowed 200 broken=false sent=5 upstream  200 bytes=5 failed=false"},
		{"denied", upstream.URL, "cost: {request_header: X-Cost, most: 9}, limits: 1/min", "/", "denied 429 broken=false sent=-"},
		{"shadowed", upstream.URL, "cost: {request_header: X-Cost, most: 9}, mode: shadow, limits: 1/min", "/", "allowed 200 broken=false sent=5 upstream  200 bytes=5 failed=false"},
		{"refused", upstream.URL, "limits: 9/min, by: query.u, missing: refuse", "/", "refused 400 broken=false sent=-"},
		{"nobody listens", "http://127.0.0.1:1", "limits: 9/min", "/", "allowed 502 broken=false sent=145 upstream  0 bytes=0 failed=true"},
		{"broken off", upstream.URL, "limits: 9/min", "/broken", "allowed 200 broken=true sent=4 upstream  200 bytes=4 failed=true"},
		{"switched", upstream.URL, "limits: 9/min", "/switch", "allowed 101 broken=false sent=5 upstream  101 bytes=5 failed=false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, ends, _ := observedSite(t, "  - {name: a, "+c.rule+"}", c.upstream)
			client, body := &http.Client{Transport: &http.Transport{}}, ""
			if strings.HasSuffix(c.path, "long") {
				body = "four"
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Cost", "2")
			if c.path == "/switch" {
				r.Body, r.ContentLength = http.NoBody, 0
				r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // which may break off
			_ = resp.Body.Close()
			client.CloseIdleConnections()
			got := <-ends
			if want, more := strings.CutSuffix(c.want, "-"); got != c.want && !(more && strings.HasPrefix(got, want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(ends) > 0 {
				t.Errorf("reported again: %q", <-ends)
			}
		})
	}
}

// TestOnEndHangUp: a request whose client leaves is over when it is settled.
func TestOnEndHangUp(t *testing.T) {
	there, release := make(chan struct{}, 1), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		there <- struct{}{}
		if r.URL.Path == "/waits" {
			<-release
			return
		}
		<-r.Context().Done()
	}))
	defer upstream.Close()
	for _, c := range []struct{ name, rule, path, want string }{
		{"passed on", "limits: 9/min", "/", "allowed 499 broken=false sent=0 upstream  0 bytes=0 failed=true"},
		{"gone on with", "limits: 9/min, when: {response: [401]}", "/waits", "allowed 499 broken=true sent=0 upstream  200 bytes=0 failed=false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, ends, returned := observedSite(t, "  - {name: a, "+c.rule+"}", upstream.URL)
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			left := make(chan error, 1)
			go func() {
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err == nil {
					err = resp.Body.Close()
				}
				left <- err
			}()
			<-there
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			<-returned
			if c.path == "/waits" {
				release <- struct{}{}
			}
			if got := <-ends; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
