// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestHangUpIsSeen: on a real connection a delayed client that hangs up frees its place at
// once, whether it has sent a body or not.
func TestHangUpIsSeen(t *testing.T) {
	for _, c := range []struct{ name, request string }{
		{"without a body", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"with a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
		{"with the largest that is read", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10)},
		{"in the middle of a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe"},
		{"in the middle of a large body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" + strings.Repeat("x", 60_000)},
		{"with a chunked body", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{"in the middle of a chunked body", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			queue := evaluate.NewQueue(10)
			g := newGuard(t, "  - {name: a, limits: 1/h leaky-bucket burst 3, max_wait: 1h}", echo, httplimit.Options{Queue: queue})
			server := httptest.NewServer(g)
			defer server.Close()
			answer(g, requestOf(t, "GET", "/", "")) // at once
			var d net.Dialer
			conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			reach(t, queue, 1)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			reach(t, queue, 0)
		})
	}
}

// reach waits until so many requests are delayed.
func reach(t *testing.T, queue *evaluate.Queue, want int) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%d held requests", want), func() bool { return queue.Stats().Held == want })
}

// TestHeldBodies: a body of any size arrives whole after the delay; one that breaks off is
// refused and costs nothing.
func TestHeldBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, "  - {name: a, limits: 1/s leaky-bucket burst 9}", echo, httplimit.Options{})
		start := time.Now()
		for i, size := range []int{0, 1, 64 << 10, 64<<10 + 1} {
			body := strings.Repeat("x", size)
			if w := answer(g, requestOf(t, "POST", "/", body)); w.Code != http.StatusOK || w.Body.String() != body {
				t.Errorf("%d bytes: got %d with %d", size, w.Code, w.Body.Len())
			}
			if got, want := time.Since(start), time.Duration(i)*time.Second; got != want {
				t.Errorf("%d bytes: after %v, want %v", size, got, want)
			}
		}
		broken := requestOf(t, "POST", "/", "half")
		broken.ContentLength = 8
		if w := answer(g, broken); w.Code != http.StatusBadRequest {
			t.Errorf("a broken body: got %d, want 400", w.Code)
		}
		answer(g, requestOf(t, "GET", "/", ""))
		if got := fmt.Sprint(time.Since(start)); got != "4s" {
			t.Errorf("after a broken body: %s, want 4s", got)
		}
	})
}

// TestBodyAcrossTheWait: a body in parts before, during and after the delay arrives whole, and
// the response need not wait for it.
func TestBodyAcrossTheWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int64
		parts  []int // sizes; the wait ends between the second and the third
	}{
		{"small", -1, []int{10, 10, 10, 10}},
		{"small, and its size is known", 40, []int{10, 10, 10, 10}},
		{"all but the end before the wait is over", 20, []int{10, 10, 0}},
		{"more than is kept", -1, []int{50_000, 50_000, 50_000, 1}},
		{"nothing before the end of the wait", -1, []int{0, 0, 100, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, "  - {name: a, limits: 1/4s leaky-bucket burst 9}", echo, httplimit.Options{})
				answer(g, requestOf(t, "GET", "/", "")) // at once
				from, to := io.Pipe()
				r := requestOf(t, "POST", "/", "")
				r.Body, r.ContentLength = from, c.length
				var sent strings.Builder
				go func() {
					for i, size := range c.parts {
						time.Sleep(1600 * time.Millisecond)
						part := strings.Repeat(string(rune('a'+i)), size)
						sent.WriteString(part)
						if _, err := io.WriteString(to, part); err != nil {
							t.Error(err)
						}
					}
					if err := to.Close(); err != nil {
						t.Error(err)
					}
				}()
				w := answer(g, r)
				if w.Code != http.StatusOK || w.Body.String() != sent.String() {
					t.Errorf("got %d with %d bytes, want 200 with %d", w.Code, w.Body.Len(), sent.Len())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, "  - {name: a, limits: 1/4s leaky-bucket burst 9}", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		}, httplimit.Options{})
		answer(g, requestOf(t, "GET", "/", ""))
		from, to := io.Pipe()
		r := requestOf(t, "POST", "/", "")
		r.Body, r.ContentLength = from, -1
		if w := answer(g, r); w.Code != http.StatusTeapot {
			t.Errorf("got %d, want 418 though the body never came", w.Code)
		}
		if err := to.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLateLeave: over HTTP/1 the leave of a client that has sent more of a body than is read
// ahead is noticed at the request's instant, within max_wait; that of a client that has sent
// less, at once.
func TestLateLeave(t *testing.T) {
	for _, c := range []struct {
		name string
		sent int // bytes of the body
		late bool
	}{{"what is read", 64 << 10, false}, {"more", 96 << 10, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := evaluate.NewQueue(10)
				g := newGuard(t, "  - {name: a, limits: 1/s burst 1, max_wait: 2s}", echo, httplimit.Options{Queue: queue})
				answer(g, requestOf(t, "GET", "/", "")) // at once
				next, last := servePipe(t, g), make(chan error, 1)
				conn := next()
				go func() {
					_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", c.sent))
					last <- err
				}()
				synctest.Wait()
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				if err := <-last; (err != nil) != c.late {
					t.Errorf("sent: %v", err)
				}
				synctest.Wait()
				held := 0
				if c.late {
					held = 1
				}
				if got := queue.Stats().Held; got != held {
					t.Errorf("after the client has left %d are held, want %d", got, held)
				}
				start := time.Now()
				answer(g, requestOf(t, "GET", "/", ""))
				if got, want := time.Since(start), time.Duration(held+1)*time.Second; got != want || queue.Stats().Held != 0 {
					t.Errorf("the next goes on after %v, want %v; %d are held then", got, want, queue.Stats().Held)
				}
			})
		})
	}
}

// servePipe serves connections in this process, which it returns one by one.
func servePipe(t *testing.T, h http.Handler) (dial func() net.Conn) {
	t.Helper()
	l := testkit.NewPipes()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func() net.Conn { return l.Connect("192.0.2.1") }
}
