// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/lint"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// greeter is a TCP upstream that sends a text and then echoes.
func greeter(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the client may have been first
				if _, err := io.WriteString(c, text); err == nil {
					_, _ = io.Copy(c, c) // until the client ends it
				}
			}()
		}
	}()
	return l.Addr().String()
}

// call connects to a listener from an address of this machine, and reports whether the
// greeting arrives.
func call(t *testing.T, url, from, greeting string) (net.Conn, bool) {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil { // reset before it was established, or nobody listens
		return nil, false
	}
	testkit.Closed(t, c)
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != greeting {
		return c, false
	}
	return c, true
}

// tcpFile is a configuration with a TCP listener.
func tcpFile(upstream, limits string) string {
	return fmt.Sprintf(`
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", serve: tcp, upstream: %q, name: db%s}
admin: 127.0.0.1:0
exempt: {networks: 127.0.0.9}
deny: 127.0.0.66
rules: [{name: a, by: ip, limits: 1000/min}]
`, upstream, limits)
}

// TestTCPRate: connections opened per time are limited for each network, and the metrics count
// them; the limit changes while the port stays open.
func TestTCPRate(t *testing.T) {
	t.Parallel()
	up := greeter(t, "hello")
	s := servetest.Start(t, tcpFile(up, `, by: ip/24/48, connections: "few: 2/min"`), servetest.Stopped)
	for i, c := range []struct {
		from string
		want bool
	}{
		{"127.0.0.1", true}, {"127.0.0.5", true}, {"127.0.0.1", false}, {"127.0.1.1", true}, // another /24
		{"127.0.0.9", true}, {"127.0.0.9", true}, {"127.0.0.66", false},
	} {
		if _, got := call(t, s.URLs[1], c.from, "hello"); got != c.want {
			t.Errorf("connection %d from %s: greeted %v, want %v", i, c.from, got, c.want)
		}
	}
	m := s.Metrics(t)
	for verdict, want := range map[string]float64{"allowed": 5, "denied-rate": 1, "denied-client": 1} {
		if got := m[fmt.Sprintf("sluice_tcp_connections_total{listener=%q,verdict=%q}", "db", verdict)]; got != want {
			t.Errorf("%s: %v in metrics, want %v", verdict, got, want)
		}
	}
	if got := m[`sluice_decisions_total{limit="few",scope="tcp:db/connections",verdict="denied"}`]; got != 1 {
		t.Errorf("decisions denied: %v, want 1", got)
	}
	s.ChangeTo(t, tcpFile(up, `, by: ip/24/48, connections: "few: 3/min"`))
	for _, want := range []bool{true, false} { // two of three are spent
		if _, got := call(t, s.URLs[1], "127.0.0.1", "hello"); got != want {
			t.Errorf("at 3 a minute: greeted %v, want %v", got, want)
		}
	}
	other := greeter(t, "howdy")
	s.ChangeTo(t, tcpFile(other, ""))
	if _, got := call(t, s.URLs[1], "127.0.0.1", "howdy"); !got {
		t.Error("not greeted by the new upstream, without limits")
	}
}

// TestTCPOpen: the connections of a network at once are limited, and existing ones stay when
// the limit changes.
func TestTCPOpen(t *testing.T) {
	t.Parallel()
	up := greeter(t, "hello")
	s := servetest.Start(t, tcpFile(up, ", open: 2"), servetest.Stopped)
	first, ok1 := call(t, s.URLs[1], "127.0.0.1", "hello")
	second, ok2 := call(t, s.URLs[1], "127.0.0.1", "hello")
	if !ok1 || !ok2 {
		t.Fatal("two may be open")
	}
	if _, ok := call(t, s.URLs[1], "127.0.0.1", "hello"); ok {
		t.Error("a third is open")
	}
	// A reset connection counts for a moment longer.
	awaitOpen(t, s, "db", 2)
	s.ChangeTo(t, tcpFile(up, ", open: {cap: 1, ttl: 10s}"))
	for _, c := range []net.Conn{first, second} {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("a connection was cut for a limit that was lowered: %v", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	awaitOpen(t, s, "db", 1)
	if _, ok := call(t, s.URLs[1], "127.0.0.1", "hello"); ok {
		t.Error("a second is open, though one may be")
	}
	if got := s.Metrics(t)[`sluice_tcp_connections_total{listener="db",verdict="denied-open"}`]; got != 2 {
		t.Errorf("%v denied in metrics, want 2", got)
	}
}

// TestTCPBytes: bytes are delayed until they fit, none is lost, and without the limit nothing
// is delayed.
func TestTCPBytes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 400)
	up := greeter(t, text)
	s := servetest.Start(t, tcpFile(up, ", bytes: 2000B/s burst 1000"), servetest.Stopped)
	c, ok := call(t, s.URLs[1], "127.0.0.1", text[:1000]) // the burst
	if !ok {
		t.Fatal("no greeting")
	}
	s.ChangeTo(t, tcpFile(up, ""))
	rest := make([]byte, len(text)-1000)
	if _, err := io.ReadFull(c, rest); err != nil || string(rest) != text[1000:] {
		t.Errorf("read %v; the text is another", err)
	}
	m := s.Metrics(t)
	if got := m[`sluice_decisions_total{limit="token-bucket.s.bytes",scope="tcp:db/bytes",verdict="allowed"}`]; got < 1 {
		t.Error("no byte was charged")
	}
	// Bytes are counted a moment after they arrive.
	testkit.Until(t, "all bytes to be counted", func() bool {
		return s.Metrics(t)[`sluice_tcp_bytes_total{direction="sent",listener="db"}`] == float64(len(text))
	})
}

// TestListenChanges: addresses are opened and closed while the program runs, requests in
// progress may finish, and one that cannot be opened changes nothing.
func TestListenChanges(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, taken)
	cert, key, trust := testkit.CertificateFiles(t)
	first, second, up := testkit.FreeAddress(t), testkit.FreeAddress(t), greeter(t, "hello")
	file := func(quota int, listen ...string) string {
		return fmt.Sprintf("listen: [%s]\nadmin: 127.0.0.1:0\nrules: [{name: a, by: ip, limits: %d/min}]\n", strings.Join(listen, ", "), quota)
	}
	web, db := fmt.Sprintf("%q", first), fmt.Sprintf(`{address: "%s", serve: tcp, upstream: %q}`, second, up)
	s := servetest.Start(t, file(100, web), servetest.Stopped)
	s.Want(t, http.StatusOK, "/?userId=u")

	s.Change(t, file(1, web, fmt.Sprintf("%q", taken.Addr())), "address already in use")
	if got := s.Get(t, "/?userId=u"); got.Status != http.StatusOK || got.Header.Get("RateLimit") == "" {
		t.Errorf("got %d after a file whose address is taken, want 200", got.Status)
	}
	s.ExpectLog(t, "stays active")

	s.ChangeTo(t, file(100, web, db))
	conn, ok := call(t, "tcp://"+second, "127.0.0.1", "hello")
	if !ok {
		t.Fatal("the new address is not served")
	}

	s.ChangeTo(t, file(100, web))
	testkit.Until(t, "the address to be closed", func() bool {
		_, ok := call(t, "tcp://"+second, "127.0.0.1", "hello")
		return !ok
	})
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("a connection was cut when its address was closed: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}

	// The same port, with TLS from now on.
	s.ChangeTo(t, file(100, fmt.Sprintf("{address: %q, tls: {cert: %q, key: %q}}", first, cert, key)))
	transport := clientTransport(trust)
	defer transport.CloseIdleConnections()
	if got := servetest.Fetch(t, &http.Client{Transport: transport}, "https://"+first+"/?userId=u"); got.Status != http.StatusOK {
		t.Errorf("over TLS: got %d", got.Status)
	}
}

// TestAdminFiles: overrides and audit are written to the configured files.
func TestAdminFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q, audit_file: %q}\nrules: [{name: api, by: query.userId, limits: 5/min}]\n", dir+"/o.json", dir+"/a.jsonl")
	s := servetest.Start(t, yaml, servetest.Stopped, func(o *serve.Options) { o.Audit = "" })
	s.Override(t, "api", "query.userId", "u", "1/min")
	for _, name := range []string{"o.json", "a.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(data, []byte("eve")) {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
}

// TestUpstreamHost: an upstream gets the client's Host, or its own.
func TestUpstreamHost(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(w, r.Host); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	s := servetest.Start(t, fmt.Sprintf("upstream: [{url: %q, path: /own, upstream_host: true}, %q]\nrules: [{name: a, by: ip, limits: 9/min}]\n", up, up), servetest.Stopped)
	own, client := strings.TrimPrefix(up, "http://"), strings.TrimPrefix(s.URL, "http://")
	for path, want := range map[string]string{"/own": own, "/": client} {
		if got := s.Get(t, path); got.Body != want {
			t.Errorf("%s: Host %q, want %q", path, got.Body, want)
		}
	}
}

// TestTCPOutage: the connections admitted while the store is unavailable are those that lint
// states for the listener's failure policy.
func TestTCPOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failure, lint string
		passed        int // of 5; 3 may be open
	}{
		{"open", "connections are accepted", 5},
		{"local", "each node limits by its share", 3},
		{"closed", "connections are reset", 0},
	} {
		t.Run(c.failure, func(t *testing.T) {
			s := servetest.Start(t, "store: {redis: {url: \"redis://127.0.0.1:1\"}}"+
				tcpFile(greeter(t, "hello"), ", open: 3, failure: "+c.failure))
			passed := 0
			for range 5 {
				if _, ok := call(t, s.URLs[1], "127.0.0.1", "hello"); ok {
					passed++
				}
			}
			if passed != c.passed {
				t.Errorf("%d passed, want %d", passed, c.passed)
			}
			conf, err := config.Load(s.File)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Contains(t, fmt.Sprint(lint.Check(conf, time.Now())), "if the store is unavailable: "+c.lint)
		})
	}
}
