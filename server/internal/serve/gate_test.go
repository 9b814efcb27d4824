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

// visit connects to an HTTP listener from an address of this machine, sends a request, and
// reports whether it is answered. The connection stays open.
func visit(t *testing.T, url, from string) (net.Conn, bool) {
	t.Helper()
	c, ok := call(t, url, from, "")
	if !ok {
		return nil, false
	}
	if _, err := io.WriteString(c, "GET /?userId=u HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return c, false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, false
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	_, err = io.Copy(io.Discard, resp.Body)
	return c, err == nil && resp.StatusCode == http.StatusOK
}

// gateFile is a configuration with an HTTP listener.
func gateFile(limits, more string) string {
	return fmt.Sprintf("listen: {address: \"127.0.0.1:0\", name: web%s}\n%s\nadmin: 127.0.0.1:0\nrules: [{name: a, limits: 1000/min}]\n", limits, more)
}

// TestHTTPConnections: connections to an HTTP listener are limited for each client network,
// opened per time and open at once; other networks are unaffected, and the metrics count them.
func TestHTTPConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, limits, verdict string }{
		{"per time", ", by: ip/24/48, connections: \"2/min\"", "denied-rate"},
		{"at once", ", by: ip/24/48, open: 2", "denied-open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.Start(t, gateFile(c.limits, ""), servetest.Stopped)
			for i, want := range []bool{true, true, false} {
				if _, got := visit(t, s.URL, fmt.Sprintf("127.0.0.%d", 1+i)); got != want {
					t.Errorf("connection %d: answered %v, want %v", i, got, want)
				}
			}
			if _, got := visit(t, s.URL, "127.0.1.1"); !got {
				t.Error("a connection of another network is not answered")
			}
			for verdict, want := range map[string]float64{"allowed": 3, c.verdict: 1} {
				if got := s.Metrics(t)[fmt.Sprintf("sluice_tcp_connections_total{listener=%q,verdict=%q}", "web", verdict)]; got != want {
					t.Errorf("%s: %v in metrics, want %v", verdict, got, want)
				}
			}
		})
	}
}

// TestHTTPOpenIsFreed: an ended connection frees its slot, also after a switch of protocol,
// and changed limits apply to new connections.
func TestHTTPOpenIsFreed(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, gateFile(", open: 1", ""), servetest.Stopped)
	first, ok := visit(t, s.URL, "127.0.0.1")
	if !ok {
		t.Fatal("the first is not answered")
	}
	if _, ok := visit(t, s.URL, "127.0.0.1"); ok {
		t.Error("a second is answered")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	awaitOpen(t, s, "web", 0)
	if _, ok := visit(t, s.URL, "127.0.0.1"); !ok {
		t.Error("one in place of the first is not answered")
	}
	s.ChangeTo(t, gateFile(", open: 2", ""))
	if _, ok := visit(t, s.URL, "127.0.0.1"); !ok {
		t.Error("a second is not answered, though two may be open")
	}
}

// awaitOpen waits until want connections are open at a listener.
func awaitOpen(t *testing.T, r *servetest.Gateway, listener string, want float64) {
	t.Helper()
	testkit.Until(t, fmt.Sprint(want, " open connections"), func() bool {
		return r.Metrics(t)[fmt.Sprintf("sluice_tcp_open_connections{listener=%q}", listener)] == want
	})
}

// TestMaxConnections: the connections at all clients' listeners together are bounded. Those
// above the bound are reset, counted and logged; operators still get in.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	up := greeter(t, "hello")
	s := servetest.Start(t, strings.Replace(tcpFile(up, ""), "listen:", "max_connections: 3\nlisten:", 1), servetest.Stopped)
	for range 2 {
		if _, ok := visit(t, s.URL, "127.0.0.1"); !ok {
			t.Fatal("not answered")
		}
	}
	conn, ok := call(t, s.URLs[1], "127.0.0.1", "hello")
	if !ok {
		t.Fatal("not greeted")
	}
	if _, ok := visit(t, s.URL, "127.0.0.1"); ok {
		t.Error("a fourth is answered")
	}
	if _, ok := call(t, s.URLs[1], "127.0.0.1", "hello"); ok {
		t.Error("a fourth is greeted")
	}
	denied := 0.0
	for series, n := range s.Metrics(t) {
		if strings.HasPrefix(series, "sluice_tcp_connections_total{") && strings.Contains(series, `verdict="denied-full"`) {
			denied += n
		}
	}
	if denied != 2 {
		t.Errorf("%v denied in metrics, want 2", denied)
	}
	s.ExpectLog(t, "raise it, or set open of the listener")
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	testkit.Until(t, "room", func() bool {
		_, ok := visit(t, s.URL, "127.0.0.1")
		return ok
	})
}
