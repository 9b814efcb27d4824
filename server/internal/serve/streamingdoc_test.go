// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const webSocket = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// streaming returns a gateway with the file of docs/streaming.md in front of an upstream.
func streaming(t *testing.T, upstream http.HandlerFunc) *servetest.Gateway {
	t.Helper()
	_, text, _ := strings.Cut(string(testkit.ReadFile(t, "../../../docs/streaming.md")), "<!-- file: chat.yaml -->\n```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	changed := strings.Replace(text, "http://127.0.0.1:3000", servetest.Backend(t, upstream), 1)
	if !ok || changed == text {
		t.Fatalf("docs/streaming.md has another file:\n%s", text)
	}
	return servetest.Start(t, changed, servetest.Stopped)
}

// begin begins a WebSocket and returns the status line.
func begin(t *testing.T, s *servetest.Gateway) (net.Conn, string) {
	t.Helper()
	conn := servetest.Dial(t, s.URL, webSocket)
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, status
}

// TestStreamingDocument: under the file of docs/streaming.md a client has five WebSockets open,
// and begins thirty in a minute.
func TestStreamingDocument(t *testing.T) {
	t.Parallel()
	s := streaming(t, func(w http.ResponseWriter, _ *http.Request) { webSocketUntil(t, w, net.Conn.Close) })
	begun := 0
	open := func(want string) net.Conn {
		conn, status := begin(t, s)
		if !strings.Contains(status, want) {
			t.Fatalf("got %q after %d, want %s", status, begun, want)
		}
		if want == "101" {
			begun++
		}
		return conn
	}
	var conns []net.Conn
	for range 5 {
		conns = append(conns, open("101"))
	}
	testkit.Closed(t, open("429"))
	for begun < 30 {
		if err := conns[0].Close(); err != nil {
			t.Fatal(err)
		}
		conns = conns[1:]
		testkit.Until(t, "the slot to be free", func() bool { return held(t, s) == "4" })
		conns = append(conns, open("101"))
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	testkit.Until(t, "the slots to be free", func() bool { return held(t, s) == "0" })
	testkit.Closed(t, open("429"))
}

// webSocketUntil switches protocol, reads until the client leaves, and then calls ends.
func webSocketUntil(t *testing.T, w http.ResponseWriter, ends func(net.Conn) error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") // the client reads it
	_, _ = io.Copy(io.Discard, rw)                                                                                       // in whichever way it ends
	if err := ends(conn); err != nil {
		t.Error(err)
	}
}

// held returns how many slots the client has.
func held(t *testing.T, s *servetest.Gateway) string {
	t.Helper()
	_, rest, _ := strings.Cut(servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?ip=127.0.0.1").Body, `"held": `)
	return strings.TrimRight(strings.SplitN(rest, "\n", 2)[0], ",")
}

// TestWebSocketWithoutClient: the slot of a WebSocket whose client has left stays taken until the
// upstream closes it, or sends what no longer arrives.
func TestWebSocketWithoutClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ends func(net.Conn) error
	}{
		{"the upstream closes", net.Conn.Close},
		{"the upstream sends", func(conn net.Conn) error {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(conn, "ping")
			}
			return conn.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			left, end := make(chan struct{}), make(chan struct{})
			s := streaming(t, func(w http.ResponseWriter, _ *http.Request) {
				webSocketUntil(t, w, func(conn net.Conn) error {
					close(left)
					<-end
					return c.ends(conn)
				})
			})
			conn, status := begin(t, s)
			if !strings.Contains(status, "101") {
				t.Fatalf("got %q", status)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			<-left
			if got := held(t, s); got != "1" {
				t.Errorf("%s slots are taken while the upstream keeps it open, want 1", got)
			}
			close(end)
			testkit.Until(t, "the slot to be free", func() bool { return held(t, s) == "0" })
		})
	}
}
