// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/gateway/guard"
)

// TestHangUpIsSeen: on a real connection, too, a client that is held back and
// hangs up frees its place at once, whether it has sent a body or not.
func TestHangUpIsSeen(t *testing.T) {
	for _, c := range []struct{ name, request string }{
		{"without a body", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"with a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			queue := guard.NewQueue(10)
			g := newGuard(t, "  - {name: a, limits: 1/h leaky-bucket burst 3, max_wait: 1h}", ok, guard.Options{Queue: queue})
			server := httptest.NewServer(g)
			defer server.Close()
			ask(g, request(t, "GET", "/", "")) // at once
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

// reach waits until so many requests are held back.
func reach(t *testing.T, queue *guard.Queue, want int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); queue.Held() != want; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d are held, want %d", queue.Held(), want)
		}
	}
}

// TestHeldBodies: a body arrives whole after the wait, of whatever size, and one
// that breaks off is refused and costs nothing.
func TestHeldBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, "  - {name: a, limits: 1/s leaky-bucket burst 9}", ok, guard.Options{})
		start := time.Now()
		for i, size := range []int{0, 1, 64 << 10, 64<<10 + 1} {
			body := strings.Repeat("x", size)
			if w := ask(g, request(t, "POST", "/", body)); w.Code != http.StatusOK || w.Body.String() != body {
				t.Errorf("%d bytes: got %d with %d", size, w.Code, w.Body.Len())
			}
			if got, want := time.Since(start), time.Duration(i)*time.Second; got != want {
				t.Errorf("%d bytes: after %v, want %v", size, got, want)
			}
		}
		broken := request(t, "POST", "/", "half")
		broken.ContentLength = 8
		if w := ask(g, broken); w.Code != http.StatusBadRequest {
			t.Errorf("a broken body: got %d, want 400", w.Code)
		}
		ask(g, request(t, "GET", "/", ""))
		if got := fmt.Sprint(time.Since(start)); got != "4s" {
			t.Errorf("after a broken body: %s, want 4s", got)
		}
	})
}
