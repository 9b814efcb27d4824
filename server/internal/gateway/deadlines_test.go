// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

const patience = 10 * time.Second

// onPipe makes a server serve one connection in memory and returns its other end.
func onPipe(t *testing.T, server *http.Server) net.Conn {
	t.Helper()
	l, ended := testkit.NewPipes(), make(chan error)
	go func() { ended <- server.Serve(l) }()
	conn := l.Connect("192.0.2.1")
	check(t, l.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	return conn
}

// overPipe serves handler on one connection and calls client with its other end.
func overPipe(t *testing.T, handler http.HandlerFunc, client func(net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := http.Server{Handler: gateway.WithDeadlines(handler, patience)}
		ours := onPipe(t, &server)
		client(ours)
		if err := errors.Join(ours.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
	}
}

// TestBodyThatStandsStill: a body may take any time while it progresses, and no longer than
// the deadline if it does not.
func TestBodyThatStandsStill(t *testing.T) {
	var got string
	var failure error
	var took time.Duration
	overPipe(t, func(_ http.ResponseWriter, r *http.Request) {
		start := time.Now()
		body, err := io.ReadAll(r.Body)
		got, failure, took = string(body), err, time.Since(start)
	}, func(conn net.Conn) {
		send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
		for range 4 {
			time.Sleep(patience - 1)
			send(t, conn, "x")
		}
		time.Sleep(2 * patience)
	})
	if want := 4*(patience-1) + patience; took != want { // virtual time: exact
		t.Errorf("took %v, want %v", took, want)
	}
	if got != "xxxx" || !errors.Is(failure, os.ErrDeadlineExceeded) {
		t.Errorf("read %q, %v", got, failure)
	}
}

// TestResponseThatIsNotTaken: a client that reads nothing blocks a handler no longer than the
// deadline.
func TestResponseThatIsNotTaken(t *testing.T) {
	var failure error
	overPipe(t, func(w http.ResponseWriter, _ *http.Request) {
		_, failure = io.WriteString(w, strings.Repeat("x", 1<<20))
	}, func(conn net.Conn) {
		send(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(2 * patience)
	})
	if !errors.Is(failure, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", failure)
	}
}

// TestContinueThatIsNotTaken: neither does a client that expects 100 Continue and does not
// read it.
func TestContinueThatIsNotTaken(t *testing.T) {
	var took time.Duration
	var failure error
	overPipe(t, func(_ http.ResponseWriter, r *http.Request) {
		start := time.Now()
		_, failure = io.ReadAll(r.Body)
		took = time.Since(start)
	}, func(conn net.Conn) {
		send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
		time.Sleep(time.Hour)
	})
	if failure == nil || took > 2*patience {
		t.Errorf("read: %v after %v", failure, took)
	}
}

// TestSilentHandler: a handler may be silent for any time, before and within its response,
// with and without a request body.
func TestSilentHandler(t *testing.T) {
	for _, c := range []struct{ name, request string }{
		{"without a body", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"with a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			overPipe(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Error(err)
				}
				for _, word := range []string{"a\n", "b\n", "c\n"} {
					select {
					case <-time.After(5 * patience):
					case <-r.Context().Done():
						t.Error("the request was ended")
						return
					}
					if _, err := io.WriteString(w, word); err != nil {
						t.Error(err)
					}
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
				}
			}, func(conn net.Conn) {
				r := bufio.NewReader(conn)
				for range 2 { // the connection serves another request afterwards
					send(t, conn, c.request)
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "a\nb\nc\n" {
						t.Errorf("read %q, %v", body, err)
					}
					check(t, resp.Body.Close())
					time.Sleep(3 * patience)
				}
			})
		})
	}
}

// TestSwitchedConnectionIsLeftAlone: a connection has no deadline after a switch of protocol.
func TestSwitchedConnectionIsLeftAlone(t *testing.T) {
	overPipe(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			if _, err := io.Copy(conn, rw); err != nil {
				t.Errorf("switched connection: %v", err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
	}, func(conn net.Conn) {
		send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
		for range 3 {
			time.Sleep(10 * patience)
			send(t, conn, "ping")
			got := make([]byte, 4)
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
				t.Errorf("read %q, %v", got, err)
			}
		}
	})
}

// TestSilentStream: over HTTP/2, too, a handler may be silent for any time.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		server := http.Server{Protocols: &protocols, Handler: gateway.WithDeadlines(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				time.Sleep(5 * patience)
				if _, err := io.WriteString(w, "a\n"); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}), patience)}
		ours := onPipe(t, &server)
		client := http.Client{Transport: &http.Transport{
			Protocols:   &protocols,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		}}
		resp, err := client.Get("http://x/")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "a\na\na\n" {
			t.Errorf("read %q, %v", body, err)
		}
		check(t, resp.Body.Close())
		client.CloseIdleConnections()
		check(t, server.Close())
	})
}

// TestLeastRate: a body below the rate is cut off; one that keeps the rate, or is not being
// read, may take any time.
func TestLeastRate(t *testing.T) {
	const rate = 100
	for _, c := range []struct {
		name        string
		size, parts int // bytes of a part, and how many are sent
		every       time.Duration
		lag         time.Duration // of the handler before each Read
		cut         bool
		reported    int // number of calls of slow
	}{
		{"a trickle", 1, 20, time.Second, 0, true, 1},
		{"a little too slow", 90, 200, time.Second, 0, true, 1},
		{"just as fast", rate, 200, time.Second, 0, false, 0},
		{"none behind a large part for as long as any may", 1 << 20, 2, patience + 1, 0, true, 0},
		{"a pause behind a part", 10 * rate, 5, patience - 1, 0, false, 0},
		{"read slowly", 1, 20, time.Millisecond, time.Minute, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failure error
				var read int64
				handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					buf := make([]byte, 1<<20)
					for failure == nil {
						time.Sleep(c.lag)
						var n int
						n, failure = r.Body.Read(buf)
						read += int64(n)
					}
				})
				reported := 0
				server := http.Server{Handler: gateway.WithLeastRate(handler, patience, func() int64 { return rate }, func() { reported++ })}
				ours := onPipe(t, &server)
				go func() { _, _ = io.Copy(io.Discard, ours) }() // the answer
				send(t, ours, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", c.size*c.parts))
				for range c.parts {
					if _, err := io.WriteString(ours, strings.Repeat("x", c.size)); err != nil {
						break // it was cut off
					}
					time.Sleep(c.every)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if cut := errors.Is(failure, os.ErrDeadlineExceeded); cut != c.cut || !cut && (!errors.Is(failure, io.EOF) || read != int64(c.size*c.parts)) {
					t.Errorf("read %d of %d, %v; want to be cut off: %v", read, c.size*c.parts, failure, c.cut)
				}
				if reported != c.reported {
					t.Errorf("reported %d times that it came too slowly, want %d", reported, c.reported)
				}
				if err := errors.Join(ours.Close(), server.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
