// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/gateway/h1"
	"github.com/sluicegate/sluice/internal/testkit"
)

// patience is how long a test waits for what must come at all.
const patience = testkit.Ceiling

// upstream is a server of raw bytes.
type upstream struct {
	*url.URL
	opened atomic.Int32 // connections
	seen   atomic.Int32 // requests
}

// serveRaw has each request of each connection answered by f, until that returns false.
func serveRaw(t *testing.T, f func(conn int, c net.Conn, r *http.Request) bool) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{URL: &url.URL{Scheme: "http", Host: l.Addr().String()}}
	var open sync.WaitGroup
	var mu sync.Mutex
	conns := make(map[net.Conn]bool)
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(u.opened.Add(1))
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			open.Go(func() {
				defer func() {
					_ = c.Close() // the test may have
					mu.Lock()
					delete(conns, c)
					mu.Unlock()
				}()
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					u.seen.Add(1)
					if !f(n, c, r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range conns {
			_ = c.Close() // mostly it is closed
		}
		mu.Unlock()
		open.Wait()
	})
	return u
}

// send writes bytes to a connection that the other side may have closed.
func send(c net.Conn, raw string) { _, _ = io.WriteString(c, raw) }

type noOthers struct{}

var errOthers = errors.New("the request went to the others")

func (noOthers) RoundTrip(*http.Request) (*http.Response, error) { return nil, errOthers }

// newTransport returns one with the bounds of a test.
func newTransport(t *testing.T, to *url.URL, change func(*h1.Options)) *h1.Transport {
	t.Helper()
	opts := h1.Options{
		Upstream: to, Others: noOthers{}, Dial: new(net.Dialer).DialContext, DialTimeout: patience, ResponseTimeout: patience,
		StallTimeout: patience, MaxHeader: 16 << 10, MaxIdle: 16, IdleTimeout: time.Minute, Unsolicited: func([]byte) {},
	}
	if change != nil {
		change(&opts)
	}
	transport := h1.New(opts)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// request returns one without a body, to a path of u.
func request(ctx context.Context, t *testing.T, u *url.URL, method, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, u.JoinPath(path).String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// result is what has come of an exchange.
type result struct {
	status  int
	body    string
	trailer http.Header
	err     error // of the round trip
	broken  error // of the body
}

func fetch(rt http.RoundTripper, r *http.Request) (res result) {
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return result{err: err}
	}
	body, err := io.ReadAll(resp.Body)
	res = result{resp.StatusCode, string(body), resp.Trailer, nil, err}
	if err := resp.Body.Close(); err != nil {
		res.broken = errors.Join(res.broken, err)
	}
	return res
}
