// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// stubborn is an upstream that works on a request until it is told to answer, also without its
// client.
type stubborn struct {
	url       string
	there     chan struct{} // one for each request
	answer    chan struct{} // closed to answer all
	once      sync.Once
	processed atomic.Int32
	running   atomic.Int32
	most      atomic.Int32 // at once
}

func newStubborn(t *testing.T, answer http.HandlerFunc) *stubborn {
	t.Helper()
	u := &stubborn{there: make(chan struct{}, 2000), answer: make(chan struct{})}
	u.url = servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		u.processed.Add(1)
		for n := u.running.Add(1); ; {
			if most := u.most.Load(); n <= most || u.most.CompareAndSwap(most, n) {
				break
			}
		}
		u.there <- struct{}{}
		<-u.answer
		u.running.Add(-1)
		answer(w, r)
	})
	t.Cleanup(u.release)
	return u
}

// release answers all requests, later ones at once.
func (u *stubborn) release() { u.once.Do(func() { close(u.answer) }) }

// answering returns a handler that answers with a status only.
func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// speaking returns a client for one version of HTTP.
func speaking(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// hangUp sends a request and leaves once the upstream has it. It returns the status of an
// earlier answer, or 0.
func hangUp(t *testing.T, r *servetest.Gateway, client *http.Client, there <-chan struct{}, header ...string) (status int) {
	t.Helper()
	return leave(t, r, client, there, func() bool { return false }, func(req *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
	})
}

// withhold is hangUp with a body whose last byte never comes. A server of HTTP/1 waits for
// that byte before it sends a denial, so denials are counted elsewhere.
func withhold(t *testing.T, r *servetest.Gateway, client *http.Client, there <-chan struct{}) (status int) {
	t.Helper()
	denied := func() float64 { return r.Metrics(t)[`sluice_requests_total{verdict="denied"}`] }
	before := denied()
	return leave(t, r, client, there, func() bool { return denied() > before }, func(req *http.Request) {
		req.Body, req.ContentLength = io.NopCloser(&unfinished{left: 9, over: req.Context().Done()}), 10
	})
}

func leave(t *testing.T, r *servetest.Gateway, client *http.Client, there <-chan struct{}, denied func() bool, change func(*http.Request)) (status int) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req := servetest.Request(ctx, t, http.MethodPost, r.URL+"/login", nil)
	change(req)
	answered := make(chan int, 1)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		answered <- resp.StatusCode
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-there:
			leave()
			return <-answered
		case status := <-answered:
			return status
		case <-tick.C:
			if denied() {
				leave()
				<-answered
				return http.StatusTooManyRequests
			}
		}
	}
}

// abandoned waits until the gateway has noticed the given number of leaving clients, and
// returns the outcomes of their requests.
func abandoned(t *testing.T, r *servetest.Gateway, want int) map[string]float64 {
	t.Helper()
	got := make(map[string]float64)
	testkit.Until(t, fmt.Sprintf("%d hang-ups to be noticed", want), func() bool {
		m := r.Metrics(t)
		got["waiting"] = m["sluice_abandoned"]
		all := got["waiting"]
		for _, end := range []string{"seen", "lost", "unsent", "full"} {
			got[end] = m[fmt.Sprintf("sluice_abandoned_total{end=%q}", end)]
			all += got[end]
		}
		return all == float64(want)
	})
	return got
}

// settled waits until no exchange continues without its client.
func settled(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	testkit.Until(t, "abandoned requests to be settled", func() bool { return r.Metrics(t)["sluice_abandoned"] == 0 })
}

// unfinished is a body of ten bytes whose last byte never comes.
type unfinished struct {
	left int
	over <-chan struct{} // closed when the client leaves
}

func (b *unfinished) Read(p []byte) (int, error) {
	if b.left == 0 {
		<-b.over
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}
