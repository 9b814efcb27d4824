// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
)

// switching is a ResponseWriter whose connection may switch protocols, with some bytes
// received already.
type switching struct {
	*httptest.ResponseRecorder
	conn  net.Conn
	early string
}

func (w *switching) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r := bufio.NewReader(io.MultiReader(strings.NewReader(w.early), w.conn))
	_, err := r.Peek(len(w.early))
	return w.conn, bufio.NewReadWriter(r, bufio.NewWriter(w.conn)), err
}

// upgrade asks a Guard to switch protocols, and then sends text, of which the first bytes come
// with the request.
func upgrade(t *testing.T, g http.Handler, sent string, early int) {
	t.Helper()
	upgradeBy(t, g, sent[:early], func(client net.Conn) { _, _ = io.WriteString(client, sent[early:]) })
}

// upgradeBy is upgrade by a client with its own behaviour, which then hangs up.
func upgradeBy(t *testing.T, g http.Handler, early string, does func(net.Conn)) {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		defer client.Close() //nolint:errcheck // a pipe has no fault to report
		does(client)
	}()
	r := requestOf(t, "GET", "/", "")
	r.Body, r.ContentLength = http.NoBody, 0
	r.Header.Set("Connection", "keep-alive, Upgrade")
	r.Header.Set("Upgrade", "websocket")
	g.ServeHTTP(&switching{httptest.NewRecorder(), server, early}, r)
}

// reads switches protocols and reads all bytes, from the connection or its buffer. It reads
// requests that do not switch, too.
func reads(t *testing.T, buffered bool, want string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			echo(w, r)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // a pipe has no fault to report
		from := io.Reader(conn)
		if buffered {
			from = rw
		}
		if got, err := io.ReadAll(from); err != nil || string(got) != want {
			t.Errorf("read %d bytes, %v; want %d as they were sent", len(got), err, len(want))
		}
	}
}

// TestSwitchedRequestBytes: the bytes that a client sends after a switch of protocols count as
// the body of its request, exactly.
func TestSwitchedRequestBytes(t *testing.T) {
	const limit = "  - {name: up, by: ip, cost: request-bytes, limits: 1000B/min sliding-log debt 1000B}\n"
	for _, c := range []struct {
		name        string
		size, early int
		buffered    bool
		want        int // of a request of one byte more
	}{
		{"nothing", 0, 0, false, 200},
		{"room for one byte", 999, 0, false, 200},
		{"all", 1000, 0, false, 429},
		{"into debt", 1500, 0, false, 429},
		{"some with the request, room", 999, 100, false, 200},
		{"some with the request", 1000, 100, false, 429},
		{"by the buffer, room", 999, 100, true, 200},
		{"by the buffer", 1000, 100, true, 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := strings.Repeat("0123456789", c.size/10+1)[:c.size]
			g := newGuard(t, limit, reads(t, c.buffered, sent), httplimit.Options{})
			upgrade(t, g, sent, c.early)
			if w := answer(g, requestOf(t, "POST", "/", "x")); w.Code != c.want {
				t.Errorf("the next byte: got %d, want %d", w.Code, c.want)
			}
		})
	}
}

// TestSwitchedResponseBytes: the bytes that a server sends then count as the response's body.
func TestSwitchedResponseBytes(t *testing.T) {
	const limit = "  - {name: down, by: ip, cost: response-bytes, limits: 1000B/min sliding-log debt 1000B}\n"
	for size, want := range map[int]int{0: 200, 999: 200, 1000: 429, 1500: 429} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			g := newGuard(t, limit, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") == "" {
					echo(w, r)
					return
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close() //nolint:errcheck // a pipe has no fault to report
				write(t, conn, strings.Repeat("x", size))
			}, httplimit.Options{})
			upgradeBy(t, g, "", func(client net.Conn) { _, _ = io.Copy(io.Discard, client) })
			if w := answer(g, requestOf(t, "POST", "/", "x")); w.Code != want {
				t.Errorf("the next byte: got %d, want %d", w.Code, want)
			}
		})
	}
}

// TestSwitchDenied: a client that has spent all the bytes does not switch protocol.
func TestSwitchDenied(t *testing.T) {
	g := newGuard(t, "  - {name: up, by: ip, cost: request-bytes, limits: 10B/min sliding-log}\n", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			t.Error("was let through")
		}
		echo(w, r)
	}, httplimit.Options{})
	if w := answer(g, requestOf(t, "POST", "/", "0123456789")); w.Code != http.StatusOK {
		t.Fatalf("got %d", w.Code)
	}
	upgrade(t, g, "", 0)
}

// TestShapingSwitched: bytes after a switch of protocols have the pace of bodies.
func TestShapingSwitched(t *testing.T) {
	sent := strings.Repeat("x", 50_000) // 5 s at 10,000 bytes a second
	for _, c := range []struct {
		name  string
		early int
	}{{"all after it", 0}, {"some with the request", 3000}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, up, reads(t, false, sent), httplimit.Options{})
				start := time.Now()
				upgrade(t, g, sent, c.early)
				if took := time.Since(start); took < 4800*time.Millisecond || took > 5*time.Second {
					t.Errorf("took %v, want 4.8s to 5s", took)
				}
			})
		})
	}
}
