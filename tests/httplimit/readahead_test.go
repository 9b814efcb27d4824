// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// newReadAhead returns a ReadAhead of that many bytes.
func newReadAhead(most int64) *httplimit.ReadAhead {
	r := new(httplimit.ReadAhead)
	r.Resize(most)
	return r
}

func kept(r *httplimit.ReadAhead) int64 {
	bytes, _ := r.Held()
	return bytes
}

func stopped(r *httplimit.ReadAhead) int64 {
	_, n := r.Held()
	return n
}

// awaitBytes waits until that many bytes are kept.
func awaitBytes(t *testing.T, room *httplimit.ReadAhead, want int64) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%d bytes kept", want), func() bool { return kept(room) == want })
}

// TestReadAheadIsBounded: 10,000 delayed requests with bodies of 66 KB, of any number of keys,
// together keep no more bytes than the bound, and none when they have ended.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, requests = 32 << 20, 10_000
		room, queue := newReadAhead(most), evaluate.NewQueue(2*requests)
		queue.Resize(2*requests, requests)
		g := newGuard(t, "  - {name: a, by: query.u, limits: 1/min leaky-bucket burst 20000}", echo, httplimit.Options{Queue: queue, ReadAhead: room})
		for _, u := range []string{"a", "b"} {
			answer(g, requestOf(t, "GET", "/?u="+u, "")) // at once
		}
		body := strings.Repeat("x", 66_000)
		ctx, leave := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for i := range requests {
			u := [...]string{"a", "b"}[i%2]
			r := requestOf(t, "POST", "/?u="+u, body).WithContext(ctx)
			clients.Go(func() {
				if w := answer(g, r); w.Code != http.StatusServiceUnavailable {
					t.Errorf("got %d", w.Code)
				}
			})
		}
		synctest.Wait()
		if got := queue.Stats().Held; got != requests {
			t.Errorf("%d are held, want %d", got, requests)
		}
		// Half of the bytes are for first chunks, of which there are more than fit.
		if got := kept(room); got > most || got <= most-4096 {
			t.Errorf("%d bytes are kept, want all of %d", got, most)
		}
		if stopped(room) == 0 {
			t.Error("no body was stopped")
		}
		leave()
		clients.Wait()
		synctest.Wait()
		if got := kept(room); got != 0 {
			t.Errorf("%d bytes are kept at the end", got)
		}
	})
}

// TestReadAheadReturns: the kept bytes of a body are given back as they are read, or when the
// request ends, whatever the handler does, and the body arrives whole however little room
// there was.
func TestReadAheadReturns(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"reads all":     echo,
		"reads nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"reads a part": func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadFull(r.Body, make([]byte, 5000)); err != nil && r.Method == http.MethodPost {
				t.Error(err)
			}
			w.WriteHeader(http.StatusTeapot)
		},
		"closes it": func(w http.ResponseWriter, r *http.Request) {
			if err := r.Body.Close(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusTeapot)
		},
	}
	for name, handler := range handlers {
		for _, most := range []int64{0, 1, 5000, 9000, 20_000, 1 << 20} {
			t.Run(fmt.Sprint(name, " of ", most), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					room := newReadAhead(most)
					g := newGuard(t, "  - {name: a, limits: 1/s leaky-bucket burst 9}", handler, httplimit.Options{ReadAhead: room})
					for _, size := range []int{1, 4095, 4096, 4097, 65_535, 65_536, 65_537} {
						body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
						if size < 5000 && name == "reads a part" {
							continue
						}
						answer(g, requestOf(t, "GET", "/", "")) // takes the turn
						w := answer(g, requestOf(t, "POST", "/", body))
						if name == "reads all" && (w.Code != http.StatusOK || w.Body.String() != body) || name != "reads all" && w.Code != http.StatusTeapot {
							t.Errorf("%d bytes: got %d with %d bytes", size, w.Code, w.Body.Len())
						}
						synctest.Wait()
						if got := kept(room); got != 0 {
							t.Errorf("%d bytes: %d are kept", size, got)
						}
					}
				})
			})
		}
	}
}

// TestReadAheadWithoutWriter: a request that a framework decides gives back the bytes that
// were read ahead when it is settled or refused.
func TestReadAheadWithoutWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := newReadAhead(1 << 20)
		g := newMiddleware(t, httplimit.Options{
			Store: newStore(newClock()), ReadAhead: room,
			Rules: []policy.Rule{rule(t, "a", policy.IP(), "1/s leaky-bucket burst 9")},
		})
		g.Decide(requestOf(t, "GET", "/", "")).Settle(policy.Response{})
		q := g.Decide(requestOf(t, "POST", "/", "hello"))
		synctest.Wait()
		if kept(room) == 0 {
			t.Fatal("nothing was kept")
		}
		q.Settle(policy.Response{})
		if got := kept(room); got != 0 {
			t.Errorf("%d bytes are kept when it is settled", got)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		q = g.Decide(requestOf(t, "POST", "/", "hello").WithContext(gone))
		if q.Allowed() {
			t.Fatal("one who left is allowed")
		}
		q.Refuse(httptest.NewRecorder())
		synctest.Wait()
		if got := kept(room); got != 0 {
			t.Errorf("%d bytes are kept when it is refused", got)
		}
	})
}

// TestReadAheadOfLeavers: over real connections, clients that send large bodies and hang up
// give back their kept bytes and their places.
func TestReadAheadOfLeavers(t *testing.T) {
	room, queue := newReadAhead(4<<20), evaluate.NewQueue(1000)
	g := newGuard(t, "  - {name: a, limits: 1/min leaky-bucket burst 1000}", echo, httplimit.Options{Queue: queue, ReadAhead: room})
	server := httptest.NewServer(g)
	defer server.Close()
	answer(g, requestOf(t, "GET", "/", "")) // at once
	var all []net.Conn
	for range 20 {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it was closed, unless the test has failed
		all = append(all, conn)
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", 50_000)); err != nil {
			t.Fatal(err)
		}
	}
	reach(t, queue, 20)
	awaitBytes(t, room, 20*(13<<12)) // 50,000 bytes each, in chunks
	for _, conn := range all {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	reach(t, queue, 0)
	awaitBytes(t, room, 0)
}
