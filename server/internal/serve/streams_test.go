// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestStreams: a WebSocket or an event stream counts as one request on arrival, holds a slot
// until its end, and then costs its bytes. The next one is denied before it begins.
func TestStreams(t *testing.T) {
	t.Parallel()
	const size = 100
	backend := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") // the client reads it
			_, _ = io.Copy(conn, rw)                                                                                             // the client counts
			_ = conn.Close()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, strings.Repeat("x", size))
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			t.Error(err)
		}
		<-r.Context().Done() // the client leaves
	})
	for _, c := range []struct {
		name, header, says string
		sent               int // bytes by the client
	}{
		{"WebSocket", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/1.1 101 ", size},
		{"events", "", "HTTP/1.1 200 ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servetest.Start(t, fmt.Sprintf(`upstream: %q
rules:
  - {name: requests, by: ip, limits: 3/day fixed-window}
  - {name: down, by: ip, cost: response-bytes, limits: 1000B/day fixed-window}
  - {name: up, by: ip, cost: request-bytes, limits: 1000B/day fixed-window}
  - {name: open, by: ip, in_flight: 1}
`, backend), servetest.Stopped)
			begin := func() (net.Conn, *bufio.Reader, string) {
				conn, r := dialGateway(t, s, "GET / HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n")
				status, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				return conn, r, status
			}
			left := func() string {
				var all []string
				body := servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?ip=127.0.0.1").Body
				for line := range strings.Lines(body) {
					if name, value, ok := strings.Cut(strings.Trim(line, " ,\n"), ": "); ok && (name == `"remaining"` || name == `"held"`) {
						all = append(all, value)
					}
				}
				return strings.Join(all, " ")
			}

			conn, r, status := begin()
			if !strings.HasPrefix(status, c.says) {
				t.Fatalf("got %q", status)
			}
			if _, err := io.WriteString(conn, strings.Repeat("x", c.sent)); err != nil {
				t.Fatal(err)
			}
			for seen := ""; strings.Count(seen, "x") < size; { // after the header
				b, err := r.ReadByte()
				if err != nil {
					t.Fatal(err)
				}
				if seen += string(b); strings.HasSuffix(seen, "\r\n\r\n") {
					seen = ""
				}
			}
			arrived := map[bool]string{true: "2 999 999 1", false: "2 999 1000 1"}[c.sent > 0]
			if got := left(); got != arrived {
				t.Errorf("while it lasts: requests, bytes down and up left, slots taken: got %s, want %s", got, arrived)
			}
			if denied, _, status := begin(); !strings.HasPrefix(status, "HTTP/1.1 429 ") {
				t.Errorf("a second meanwhile: got %q", status)
			} else if err := denied.Close(); err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			ended := fmt.Sprintf("2 %d %d 0", 1000-size, 1000-c.sent)
			testkit.Until(t, "the bytes to be charged, and the slot to be free: "+ended, func() bool { return left() == ended })
		})
	}
}

// dialGateway sends a request verbatim on a new connection.
func dialGateway(t *testing.T, s *servetest.Gateway, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := servetest.Dial(t, s.URL, request)
	return conn, bufio.NewReader(conn)
}
