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
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/gateway/h1"
)

// answer is a response that names the connection.
func answer(conn int) string { return fmt.Sprintf("%sContent-Length: 6\r\n\r\nconn %d", ok, conn) }

// TestUnsolicited: a connection on which something comes while nobody uses it is not used
// again, and no request is lost by that, of whatever method.
func TestUnsolicited(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		for name, disturb := range map[string]func(net.Conn){
			"a response": func(c net.Conn) { send(c, ok+"Content-Length: 6\r\n\r\npoison") },
			"a byte":     func(c net.Conn) { send(c, "H") },
			"a timeout":  func(c net.Conn) { send(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"); _ = c.Close() },
			"an end":     func(c net.Conn) { _ = c.Close() },
			"half of an end": func(c net.Conn) {
				if half, is := c.(*net.TCPConn); is {
					_ = half.CloseWrite()
				}
			},
			"a reset": func(c net.Conn) {
				if tcp, is := c.(*net.TCPConn); is {
					_ = tcp.SetLinger(0)
				}
				_ = c.Close()
			},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				peers := make(chan net.Conn, 1)
				up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
					send(c, answer(conn))
					if conn == 1 {
						peers <- c
					}
					return true
				})
				reported := make(chan string, 1)
				transport := newTransport(t, up.URL, func(o *h1.Options) {
					o.Unsolicited = func(came []byte) { reported <- string(came) }
				})
				if got := fetch(transport, request(t.Context(), t, up.URL, method, "")); got.body != "conn 1" {
					t.Fatalf("first %+v", got)
				}
				disturb(<-peers)
				if got := fetch(transport, request(t.Context(), t, up.URL, method, "")); got.body != "conn 2" {
					t.Errorf("second %+v", got)
				}
				if n := up.seen.Load(); n != 2 {
					t.Errorf("the upstream has seen %d requests", n)
				}
				close(reported)
				if got, want := <-reported, map[string]string{"a response": "HTTP/1.1 200 OK\r", "a byte": "H"}[name]; got != want {
					t.Errorf("reported %q, want %q", got, want)
				}
			})
		}
	}
}

// TestUnsolicitedBehind: what comes with a response, and is no part of it, is reported.
func TestUnsolicitedBehind(t *testing.T) {
	for behind, want := range map[string]string{
		"":                                  "",
		"x":                                 "x",
		ok + "Content-Length: 0\r\n\r\n":    "HTTP/1.1 200 OK\r",
		"HTTP/1.0 408 Request Timeout\r\n":  "",
		" HTTP/1.1 408 Request Timeout\r\n": " HTTP/1.1 408 Re",
	} {
		t.Run(behind, func(t *testing.T) {
			up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
				send(c, answer(conn)+behind)
				return true
			})
			var reported []string
			transport := newTransport(t, up.URL, func(o *h1.Options) {
				o.Unsolicited = func(came []byte) { reported = append(reported, string(came)) }
			})
			if got := fetch(transport, request(t.Context(), t, up.URL, http.MethodGet, "")); got.body != "conn 1" {
				t.Fatalf("got %+v", got)
			}
			if got := strings.Join(reported, ", "); got != want {
				t.Errorf("reported %q, want %q", got, want)
			}
		})
	}
}

// TestRepeat: a request that found a kept connection closed is sent once more if
// it may be, and by a new connection.
func TestRepeat(t *testing.T) {
	for _, c := range []struct {
		name, method, key string
		fresh             bool   // there is no connection yet
		raw               string // what comes of a response
		always            bool   // all connections are closed
		seen              int32
		want              string // body, or error
	}{
		{name: "GET", method: http.MethodGet, seen: 3, want: "conn 2"},
		{name: "HEAD", method: http.MethodHead, seen: 3},
		{name: "OPTIONS", method: http.MethodOptions, seen: 3, want: "conn 2"},
		{name: "POST", method: http.MethodPost, seen: 2, want: "closed the connection before a response"},
		{name: "DELETE", method: http.MethodDelete, seen: 2, want: "closed the connection before a response"},
		{name: "POST with a key", method: http.MethodPost, key: "Idempotency-Key", seen: 3, want: "conn 2"},
		{name: "POST with another key", method: http.MethodPost, key: "X-Idempotency-Key", seen: 3, want: "conn 2"},
		{name: "a byte came", method: http.MethodGet, raw: "H", seen: 2, want: "read a response"},
		{name: "hints came", method: http.MethodGet, raw: "HTTP/1.1 103 Early Hints\r\n\r\n", seen: 2, want: "unexpected EOF"},
		{name: "a new connection", method: http.MethodGet, fresh: true, seen: 1, want: "closed the connection before a response"},
		{name: "again", method: http.MethodGet, always: true, seen: 3, want: "closed the connection before a response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := serveRaw(t, func(conn int, peer net.Conn, r *http.Request) bool {
				if r.URL.Path == "/closed" && (conn == 1 || c.always) {
					send(peer, c.raw)
					return false
				}
				send(peer, answer(conn))
				return true
			})
			transport := newTransport(t, up.URL, nil)
			if !c.fresh {
				fetch(transport, request(t.Context(), t, up.URL, http.MethodGet, ""))
			}
			r := request(t.Context(), t, up.URL, c.method, "closed")
			if c.key != "" {
				r.Header.Set(c.key, "1")
			}
			got := fetch(transport, r)
			if text := got.body + fmt.Sprint(got.err); !strings.Contains(text, c.want) || (got.err == nil) != (got.status == 200) {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if n := up.seen.Load(); n != c.seen {
				t.Errorf("the upstream has seen %d requests, want %d", n, c.seen)
			}
		})
	}
}

// TestOthers: what cannot be sent before its response is read goes to the others.
func TestOthers(t *testing.T) {
	up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
		send(c, answer(conn))
		return true
	})
	transport := newTransport(t, up.URL, nil)
	for name, change := range map[string]func(*http.Request){
		"a body":            func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 },
		"a body of no size": func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), -1 },
		"Upgrade":           func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"Connection":        func(r *http.Request) { r.Header.Set("Connection", "close") },
		"Expect":            func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"CONNECT":           func(r *http.Request) { r.Method = http.MethodConnect },
		"another method":    func(r *http.Request) { r.Method = "PURGE" },
		"another host":      func(r *http.Request) { r.URL.Host = "127.0.0.1:1" },
		"TLS":               func(r *http.Request) { r.URL.Scheme = "https" },
		"a bad name":        func(r *http.Request) { r.Header["X Y"] = []string{"1"} },
		"a bad value":       func(r *http.Request) { r.Header["X"] = []string{"1\r\nY: 2"} },
		"close":             func(r *http.Request) { r.Close = true },
		"trailers":          func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
	} {
		r := request(t.Context(), t, up.URL, http.MethodGet, "")
		change(r)
		if got := fetch(transport, r); !errors.Is(got.err, errOthers) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	idn := *up.URL
	idn.Host = "bücher.example"
	if got := fetch(newTransport(t, &idn, nil), request(t.Context(), t, &idn, http.MethodGet, "")); !errors.Is(got.err, errOthers) {
		t.Errorf("a host of other letters: %+v", got)
	}
	if n := up.seen.Load(); n != 0 {
		t.Errorf("the upstream has seen %d requests", n)
	}
}

var errLeft = errors.New("the client has left")

// TestCancel: an exchange ends when its context does, wherever it is, with the cause,
// and its connection with it.
func TestCancel(t *testing.T) {
	header := make(chan struct{}, 1)
	for _, at := range []string{"before", "dial", "header", "body"} {
		t.Run(at, func(t *testing.T) {
			gone := make(chan struct{})
			up := serveRaw(t, func(_ int, c net.Conn, _ *http.Request) bool {
				if at == "body" {
					send(c, ok+"Content-Length: 6\r\n\r\nfi")
				} else {
					header <- struct{}{}
				}
				_, err := c.Read(make([]byte, 1))
				if err == nil {
					t.Error("the upstream gets more")
				}
				close(gone)
				return false
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			transport := newTransport(t, up.URL, func(o *h1.Options) {
				if at == "dial" {
					o.Dial = func(dialling context.Context, _, _ string) (net.Conn, error) {
						cancel(errLeft)
						<-dialling.Done()
						close(gone)
						return nil, dialling.Err()
					}
				}
			})
			switch at {
			case "before":
				cancel(errLeft)
				close(gone)
			case "header":
				go func() {
					<-header
					cancel(errLeft)
				}()
			}
			resp, err := transport.RoundTrip(request(ctx, t, up.URL, http.MethodGet, ""))
			if at == "body" && err == nil {
				if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
					t.Error(err)
				}
				go cancel(errLeft)
				_, err = resp.Body.Read(make([]byte, 1))
				if again := resp.Body.Close(); again != nil {
					t.Error(again)
				}
				if !errors.Is(err, errLeft) {
					t.Errorf("error %v", err)
				}
			} else if !errors.Is(err, errLeft) {
				t.Errorf("error %v", err)
			}
			select {
			case <-gone:
			case <-time.After(patience):
				t.Error("the connection stays open")
			}
		})
	}
}

// TestLateCancel: a context that ends just when its exchange has ended harms no other
// that has its connection.
func TestLateCancel(t *testing.T) {
	up := serveRaw(t, func(_ int, c net.Conn, r *http.Request) bool {
		send(c, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok, len(r.URL.Path), r.URL.Path))
		return true
	})
	transport := newTransport(t, up.URL, nil)
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for i := range 500 {
				path := fmt.Sprintf("/%d/%d", client, i)
				ctx, cancel := context.WithCancel(t.Context())
				if client%2 == 0 {
					traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { go cancel() }})
					got := fetch(transport, request(traced, t, up.URL, http.MethodGet, path))
					if got.err == nil && got.broken == nil && got.body != path {
						t.Errorf("%s got %s", path, got.body)
					}
				} else if got := fetch(transport, request(ctx, t, up.URL, http.MethodGet, path)); got.body != path || got.err != nil || got.broken != nil {
					t.Errorf("%s: %+v", path, got)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// TestTrace: those who watch a request hear of its connection and of hints.
func TestTrace(t *testing.T) {
	up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
		send(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+answer(conn))
		return true
	})
	transport := newTransport(t, up.URL, nil)
	var heard []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { heard = append(heard, fmt.Sprint("reused ", i.Reused)) },
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			heard = append(heard, fmt.Sprint(status, h["Link"]))
			return nil
		},
	})
	for range 2 {
		fetch(transport, request(ctx, t, up.URL, http.MethodGet, ""))
	}
	if got, want := strings.Join(heard, ", "), "reused false, 103 [</a>], reused true, 103 [</a>]"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
	refuse := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { return errLeft }})
	if got := fetch(transport, request(refuse, t, up.URL, http.MethodGet, "")); !errors.Is(got.err, errLeft) {
		t.Errorf("got %+v", got)
	}
}

// TestNotKept: a connection that nobody can look at carries one request.
func TestNotKept(t *testing.T) {
	up := serveRaw(t, func(conn int, c net.Conn, _ *http.Request) bool {
		send(c, answer(conn))
		return true
	})
	transport := newTransport(t, up.URL, func(o *h1.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return struct{ net.Conn }{c}, err
		}
	})
	for i := range 2 {
		if got, want := fetch(transport, request(t.Context(), t, up.URL, http.MethodGet, "")), fmt.Sprint("conn ", i+1); got.body != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// TestStalledUpstream: one that reads no more of a header is given up.
func TestStalledUpstream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is left to be done
	up := url.URL{Scheme: "http", Host: l.Addr().String()}
	transport := newTransport(t, &up, func(o *h1.Options) { o.StallTimeout = 20 * time.Millisecond })
	r := request(t.Context(), t, &up, http.MethodPost, "")
	for i := range 64 {
		r.Header.Set(fmt.Sprint("X-", i), strings.Repeat("x", 256<<10))
	}
	if got := fetch(transport, r); !errors.Is(got.err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", got.err)
	}
}
