// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// outlived is a Gateway behind a handler that awaits responses.
type outlived struct {
	url      string
	gateway  *gateway.Gateway
	settled  chan exchange.Outcome // of requests without a client
	returned chan bool             // whether the request continues
	bodies   chan *exchange.Body   // of all requests
}

// startOutlived serves an outlived in front of an upstream, with or without TLS.
func startOutlived(t *testing.T, upstream string, opts gateway.Options, settle func()) *outlived {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	g, err := gateway.New(upstream, opts)
	check(t, err)
	gateway.TrustAny(t, g)
	o := &outlived{gateway: g, settled: make(chan exchange.Outcome, 100), returned: make(chan bool, 100), bodies: make(chan *exchange.Body, 100)}
	o.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, w := exchange.Count(w, r)
		x.Settlement = &exchange.Settlement{
			Presume: func() {},
			Keys:    slices.Values([]string{r.Header.Get("X-Key")}),
			Settle: func(outcome exchange.Outcome) {
				o.settled <- outcome
				settle()
			},
		}
		defer func() { o.returned <- x.Settlement.Taken() }()
		r = x.Watch(r)
		o.bodies <- x.Body()
		g.ServeHTTP(w, r)
	}), g.Close)
	return o
}

// leave sends a request, leaves when it has arrived, and returns whether it continues.
func (o *outlived) leave(t *testing.T, method string, there <-chan struct{}, body io.Reader, after ...func()) bool {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, method, o.url, body)
	check(t, err)
	go func() {
		<-there
		leave()
		for _, f := range after {
			f()
		}
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		check(t, resp.Body.Close())
		t.Errorf("status %d before the client left", resp.StatusCode)
	}
	return <-o.returned
}

// TestOutlives: an exchange continues without its client, and is settled by its final outcome.
func TestOutlives(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Cost", "7")
			w.WriteHeader(status)
		}
	}
	breaks := func(w http.ResponseWriter, _ *http.Request) {
		conn, _ := hijack(t, w, "")
		check(t, conn.Close())
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // it would end the test
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	switches := func(w http.ResponseWriter, _ *http.Request) {
		conn, _ := hijack(t, w, switching)
		_, _ = io.Copy(io.Discard, conn) // until the gateway closes it, possibly by a reset
		check(t, conn.Close())
	}
	for _, c := range []struct {
		name   string
		tls    bool // with HTTP/2
		answer http.HandlerFunc
		opts   gateway.Options
		want   exchange.Outcome
	}{
		{"answers", false, answer(http.StatusUnauthorized), gateway.Options{}, exchange.Outcome{Status: 401}},
		{"answers over HTTP/2", true, answer(http.StatusUnauthorized), gateway.Options{}, exchange.Outcome{Status: 401}},
		{"has waited in vain itself", false, answer(http.StatusGatewayTimeout), gateway.Options{}, exchange.Outcome{Status: 504, Unseen: true}},
		{"answers without an end", false, endless, gateway.Options{}, exchange.Outcome{Status: 200}},
		{"answers without an end over HTTP/2", true, endless, gateway.Options{}, exchange.Outcome{Status: 200}},
		{"breaks off", false, breaks, gateway.Options{}, exchange.Outcome{Status: 502, Unseen: true}},
		{"switches protocol", false, switches, gateway.Options{}, exchange.Outcome{Status: 101}},
		{"takes too long", false, nil, gateway.Options{ResponseTimeout: 3 * time.Second}, exchange.Outcome{Status: 504, Unseen: true, Running: true}},
		{"takes too long over HTTP/2", true, nil, gateway.Options{ResponseTimeout: 3 * time.Second}, exchange.Outcome{Status: 504, Unseen: true, Running: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.answer == nil {
				t.Parallel() // both wait for the timeout, before which the client must have left
			}
			there, release := make(chan struct{}), make(chan struct{})
			upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				check(t, err)
				there <- struct{}{}
				<-release
				if c.answer != nil {
					c.answer(w, r)
				}
			}))
			if upstream.EnableHTTP2 = c.tls; c.tls {
				upstream.StartTLS()
			} else {
				upstream.Start()
			}
			t.Cleanup(upstream.Close)
			c.opts.Abandoned = gateway.NewAbandoned(1)
			o := startOutlived(t, upstream.URL, c.opts, func() {})
			if !o.leave(t, http.MethodPost, there, strings.NewReader("hello")) {
				t.Fatal("does not go on")
			}
			if c.answer != nil {
				close(release)
			}
			got := <-o.settled
			if c.answer == nil {
				close(release)
			}
			if c.name == "answers" && (got.Header == nil || got.Header("X-Cost")[0] != "7") {
				t.Error("the response's fields are lost")
			}
			got.Header, c.want.Header = nil, nil
			if got.Status != c.want.Status || got.Unseen != c.want.Unseen || got.Running != c.want.Running {
				t.Errorf("settled by %+v, want %+v", got, c.want)
			}
			untilNone(t, c.opts.Abandoned)
		})
	}
}

// untilNone waits until no exchange continues.
func untilNone(t *testing.T, a *gateway.Abandoned) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for a.Waiting() > 0 {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%d go on", a.Waiting())
		}
	}
}

// TestSentOnceMore: a request that the transport sends again on a broken connection is one
// request, settled once.
func TestSentOnceMore(t *testing.T) {
	var asked atomic.Int32
	there := make(chan struct{}, 2)
	release := make(chan struct{})
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1: // a connection to be reused
		case 2:
			there <- struct{}{}
			<-release
			conn, _, err := http.NewResponseController(w).Hijack()
			check(t, err)
			check(t, conn.Close())
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	pool := gateway.NewAbandoned(1)
	o := startOutlived(t, upstream, gateway.Options{Abandoned: pool}, func() {})
	do(t, http.MethodGet, o.url, nil)
	<-o.returned
	if !o.leave(t, http.MethodGet, there, nil) {
		t.Fatal("does not go on")
	}
	close(release)
	if got := <-o.settled; got.Status != http.StatusUnauthorized || got.Unseen {
		t.Errorf("settled by %+v, want the answer to the request that was sent again", got)
	}
	untilNone(t, pool)
	if len(o.settled) > 0 || asked.Load() != 3 {
		t.Errorf("%d more outcomes, %d requests in all; want none and 3", len(o.settled), asked.Load())
	}
}

// TestDoesNotOutlive: a request that was not sent whole ends with its client, and so does one
// above the bound, and one of a gateway that ends.
func TestDoesNotOutlive(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		there, release := make(chan struct{}, 10), make(chan struct{})
		upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.ContentLength >= 0 {
				_, err := io.Copy(io.Discard, r.Body)
				check(t, err)
			}
			there <- struct{}{}
			<-release
		}))
		upstream.EnableHTTP2 = h2
		upstream.StartTLS()
		t.Cleanup(upstream.Close)
		t.Cleanup(func() { close(release) })
		pool := gateway.NewAbandoned(1)
		o := startOutlived(t, upstream.URL, gateway.Options{Abandoned: pool}, func() {})
		never, end := io.Pipe()
		if o.leave(t, http.MethodPost, there, io.MultiReader(strings.NewReader("hell"), never), func() { check(t, end.CloseWithError(io.ErrUnexpectedEOF)) }) {
			t.Error("goes on without its end")
		}
		if !o.leave(t, http.MethodPost, there, strings.NewReader("hello")) {
			t.Error("does not go on")
		}
		if o.leave(t, http.MethodPost, there, strings.NewReader("hello")) {
			t.Error("goes on, and there is one already")
		}
		pool.Cancel()
		if got := <-o.settled; !got.Unseen || !got.Running {
			t.Errorf("cancelled: settled by %+v, want unseen and running", got)
		}
		untilNone(t, pool)
		if o.leave(t, http.MethodPost, there, strings.NewReader("hello")) {
			t.Error("goes on, and the gateway ends")
		}
		if got, want := pool.Stats(), (gateway.AbandonedStats{Lost: 1, Unsent: 1, Full: 2}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	}
}

// TestSettlePanics: a panic in a settlement does not end the program, and frees its place.
func TestSettlePanics(t *testing.T) {
	there, release := make(chan struct{}), make(chan struct{})
	upstream := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		there <- struct{}{}
		<-release
	}))
	var log testkit.Buffer
	pool := gateway.NewAbandoned(1)
	o := startOutlived(t, upstream, gateway.Options{Abandoned: pool, Log: slog.New(slog.NewTextHandler(&log, nil))}, func() { panic("of a rule's function") })
	if !o.leave(t, http.MethodGet, there, nil) {
		t.Fatal("does not go on")
	}
	close(release)
	<-o.settled
	untilNone(t, pool)
	if !strings.Contains(log.String(), "of a rule's function") {
		t.Errorf("logged %q", log.String())
	}
}

// TestNoGoroutineIsLeft: neither requests that outlived their clients nor others leave a
// goroutine.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("requests", func(t *testing.T) {
		there := make(chan struct{}, 1)
		release := make(chan struct{})
		upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			check(t, err)
			there <- struct{}{}
			<-release
		}))
		pool := gateway.NewAbandoned(100)
		o := startOutlived(t, upstream, gateway.Options{Abandoned: pool}, func() {})
		for range 20 { // ten are one key's share
			o.leave(t, http.MethodPost, there, strings.NewReader("hello"))
		}
		close(release)
		untilNone(t, pool)
		if got := pool.Stats(); got.Seen != 10 || got.Full != 10 {
			t.Errorf("counted %+v, want 10 seen and 10 cancelled", got)
		}
		for range 20 {
			go func() { <-there }()
			do(t, http.MethodGet, o.url, nil)
		}
	})
	http.DefaultClient.CloseIdleConnections()
	testkit.Until(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
