// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/internal/gateway/h1"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestCloseWithoutBody: a connection whose upstream said that it closes it carries no
// other request, also where the response has no body.
func TestCloseWithoutBody(t *testing.T) {
	for _, c := range []struct{ name, method, raw string }{
		{"no bytes", http.MethodGet, ok + "Connection: close\r\nContent-Length: 0\r\n\r\n"},
		{"no content", http.MethodGet, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"},
		{"not modified", http.MethodGet, "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"},
		{"HEAD", http.MethodHead, ok + "Connection: close\r\nContent-Length: 5\r\n\r\n"},
		{"HEAD of HTTP/1.0", http.MethodHead, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n"},
		{"HEAD of HTTP/1.0 without a length", http.MethodHead, "HTTP/1.0 200 OK\r\n\r\n"},
		{"HTTP/1.0 without content", http.MethodGet, "HTTP/1.0 204 No Content\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := serveRaw(t, func(conn int, peer net.Conn, r *http.Request) bool {
				switch {
				case r.URL.Path == "/first":
					send(peer, c.raw)
				case conn == 1: // the body of the response before, which came late
					send(peer, ok+"Content-Length: 6\r\n\r\npoison")
				default:
					send(peer, answer(conn))
				}
				return true
			})
			transport := newTransport(t, up.URL, nil)
			if got := fetch(transport, request(t.Context(), t, up.URL, c.method, "first")); got.err != nil || got.broken != nil {
				t.Fatalf("first %+v", got)
			}
			if got := fetch(transport, request(t.Context(), t, up.URL, http.MethodGet, "second")); got.body != "conn 2" {
				t.Errorf("then %+v", got)
			}
		})
	}
}

// TestBodyLeft: the connection of a response whose body nobody reads or closes is closed
// when the context of the request ends.
func TestBodyLeft(t *testing.T) {
	var closed atomic.Int32
	up := serveRaw(t, func(_ int, c net.Conn, _ *http.Request) bool {
		send(c, ok+"Content-Length: 6\r\n\r\nfi")
		return true
	})
	transport := newTransport(t, up.URL, func(o *h1.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &counted{c, &closed}, err
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := transport.RoundTrip(request(ctx, t, up.URL, http.MethodGet, ""))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	testkit.Until(t, "the connection to be closed, as the context has ended", func() bool { return closed.Load() > 0 })
	_ = resp.Body.Close()
}

type counted struct {
	net.Conn
	closed *atomic.Int32
}

func (c *counted) NetConn() net.Conn { return c.Conn }
func (c *counted) Close() error      { c.closed.Add(1); return c.Conn.Close() }

// TestPanickingTrace: the connection is closed if who watches the request panics.
func TestPanickingTrace(t *testing.T) {
	for _, at := range []string{"connection", "hints"} {
		t.Run(at, func(t *testing.T) {
			var closed atomic.Int32
			up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
				send(c, "HTTP/1.1 103 Early Hints\r\n\r\n"+answer(conn))
				return true
			})
			transport := newTransport(t, up.URL, func(o *h1.Options) {
				o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, address)
					return &counted{c, &closed}, err
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) {
					if at == "connection" {
						panic(http.ErrAbortHandler)
					}
				},
				Got1xxResponse: func(int, textproto.MIMEHeader) error { panic(http.ErrAbortHandler) },
			})
			func() {
				defer func() { _ = recover() }()
				fetch(transport, request(ctx, t, up.URL, http.MethodGet, ""))
			}()
			cancel()
			testkit.Until(t, "the connection to be closed", func() bool { return closed.Load() > 0 })
		})
	}
}

// TestEndAgain: the end of a body is the end however often it is read.
func TestEndAgain(t *testing.T) {
	up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
		send(c, answer(conn))
		return true
	})
	resp, err := newTransport(t, up.URL, nil).RoundTrip(request(t.Context(), t, up.URL, http.MethodGet, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %v", err)
	}
	_ = resp.Body.Close()
}

// late is a connection whose second write waits until the other side has closed it.
type late struct {
	net.Conn
	until  chan struct{}
	writes atomic.Int32
}

func (c *late) NetConn() net.Conn { return c.Conn }

func (c *late) Write(p []byte) (int, error) {
	if c.writes.Add(1) > 1 {
		<-c.until
		for {
			if n, err := c.Conn.Write(p); err != nil { // the reset has arrived
				return n, err
			}
		}
	}
	return c.Conn.Write(p)
}

// TestEarlyAnswer: an upstream that answers before it has read all of a long header, and closes,
// is heard, as by the transport of net/http.
func TestEarlyAnswer(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint("sync ", sync), func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() //nolint:errcheck // a test
			closed, answered := make(chan struct{}), make(chan struct{})
			until := answered // net/http reads while it writes
			if sync {
				until = closed
			}
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(c, make([]byte, 1024))
				send(c, "HTTP/1.1 431 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlong")
				_ = c.Close()
				close(closed)
			}()
			u := &url.URL{Scheme: "http", Host: l.Addr().String()}
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				return &late{Conn: c, until: until}, err
			}
			var rt http.RoundTripper = &http.Transport{DialContext: dial}
			if sync {
				rt = newTransport(t, u, func(o *h1.Options) { o.Dial = dial })
			}
			r := request(t.Context(), t, u, http.MethodGet, "")
			r.Header.Set("X", strings.Repeat("x", 48<<10))
			got := fetch(rt, r)
			close(answered)
			if got.status != 431 || got.body != "long" {
				t.Errorf("%+v, error %v", got, got.err)
			}
		})
	}
}
