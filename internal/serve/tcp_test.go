// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

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

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/testkit"
)

// greeter is an upstream for TCP that says a text and then what it hears.
func greeter(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, l)
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

// call connects to a listener from an address of this machine, and reports whether
// it is greeted.
func call(t *testing.T, url, from, greeting string) (net.Conn, bool) {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil { // reset before it was fully made, or nobody listens
		return nil, false
	}
	closeAtEnd(t, c)
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
  - {address: "tcp://127.0.0.2:0", upstream: %q, name: db%s}
admin: 127.0.0.1:0
exempt: {networks: 127.0.0.9}
deny: 127.0.0.66
rules: [{name: a, by: ip, limits: 1000/min}]
`, upstream, limits)
}

// changeTo activates another configuration.
func (r *running) changeTo(t *testing.T, yaml string) {
	t.Helper()
	before := r.hash(t)
	r.change(t, yaml, "active since")
	for r.hash(t) == before && !t.Failed() && t.Context().Err() == nil {
	}
}

// TestTCPRate: connections opened per time are limited for each network, as the
// metrics say; the limit changes while the port stays open.
func TestTCPRate(t *testing.T) {
	up := greeter(t, "hello")
	s := start(t, tcpFile(up, `, by: ip/24/48, connections: "few: 2/min"`), stopped)
	for i, c := range []struct {
		from string
		want bool
	}{
		{"127.0.0.1", true}, {"127.0.0.5", true}, {"127.0.0.1", false}, {"127.0.1.1", true}, // another /24
		{"127.0.0.9", true}, {"127.0.0.9", true}, {"127.0.0.66", false},
	} {
		if _, got := call(t, s.urls[1], c.from, "hello"); got != c.want {
			t.Errorf("connection %d from %s: greeted %v, want %v", i, c.from, got, c.want)
		}
	}
	m := s.metrics(t)
	for verdict, want := range map[string]float64{"allowed": 5, "denied-rate": 1, "denied-client": 1} {
		if got := m[fmt.Sprintf("sluice_tcp_connections_total{listener=%q,verdict=%q}", "db", verdict)]; got != want {
			t.Errorf("%s: %v in metrics, want %v", verdict, got, want)
		}
	}
	if got := m[`sluice_decisions_total{limit="few",scope="tcp:db/connections",verdict="denied"}`]; got != 1 {
		t.Errorf("decisions denied: %v, want 1", got)
	}
	s.changeTo(t, tcpFile(up, `, by: ip/24/48, connections: "few: 3/min"`))
	for _, want := range []bool{true, false} { // two of three are spent
		if _, got := call(t, s.urls[1], "127.0.0.1", "hello"); got != want {
			t.Errorf("at 3 a minute: greeted %v, want %v", got, want)
		}
	}
	other := greeter(t, "howdy")
	s.changeTo(t, tcpFile(other, ""))
	if _, got := call(t, s.urls[1], "127.0.0.1", "howdy"); !got {
		t.Error("not greeted by the new upstream, without limits")
	}
}

// TestTCPOpen: a network holds as many connections as it may, and those that are
// there stay when that changes.
func TestTCPOpen(t *testing.T) {
	up := greeter(t, "hello")
	s := start(t, tcpFile(up, ", open: 2"), stopped)
	first, ok1 := call(t, s.urls[1], "127.0.0.1", "hello")
	second, ok2 := call(t, s.urls[1], "127.0.0.1", "hello")
	if !ok1 || !ok2 {
		t.Fatal("two may be open")
	}
	if _, ok := call(t, s.urls[1], "127.0.0.1", "hello"); ok {
		t.Error("a third is open")
	}
	// What was reset counts for a moment longer.
	for s.metrics(t)[`sluice_tcp_open_connections{listener="db"}`] != 2 && t.Context().Err() == nil {
	}
	s.changeTo(t, tcpFile(up, ", open: {cap: 1, ttl: 10s}"))
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
	for s.metrics(t)[`sluice_tcp_open_connections{listener="db"}`] != 1 && !t.Failed() {
	}
	if _, ok := call(t, s.urls[1], "127.0.0.1", "hello"); ok {
		t.Error("a second is open, though one may be")
	}
	if got := s.metrics(t)[`sluice_tcp_connections_total{listener="db",verdict="denied-open"}`]; got != 2 {
		t.Errorf("%v denied in metrics, want 2", got)
	}
}

// TestTCPBytes: bytes wait until they fit, none is lost, and a limit that is
// taken away delays nothing.
func TestTCPBytes(t *testing.T) {
	text := strings.Repeat("0123456789", 400)
	up := greeter(t, text)
	s := start(t, tcpFile(up, ", bytes: 2000B/s burst 1000"), stopped)
	c, ok := call(t, s.urls[1], "127.0.0.1", text[:1000]) // what the burst has
	if !ok {
		t.Fatal("no greeting")
	}
	s.changeTo(t, tcpFile(up, ""))
	rest := make([]byte, len(text)-1000)
	if _, err := io.ReadFull(c, rest); err != nil || string(rest) != text[1000:] {
		t.Errorf("read %v; the text is another", err)
	}
	m := s.metrics(t)
	if got := m[`sluice_decisions_total{limit="token-bucket.s.bytes",scope="tcp:db/bytes",verdict="allowed"}`]; got < 1 {
		t.Error("no byte was charged")
	}
	// What has been sent counts a moment after it has come.
	for s.metrics(t)[`sluice_tcp_bytes_total{direction="sent",listener="db"}`] != float64(len(text)) && !t.Failed() && t.Context().Err() == nil {
	}
}

// TestListenChanges: addresses are opened and closed while the program runs,
// requests in progress may end, and one that cannot be opened changes nothing.
func TestListenChanges(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, taken)
	cert, key, trust := certificateFiles(t)
	first, second, up := testkit.FreeAddress(t), testkit.FreeAddress(t), greeter(t, "hello")
	file := func(quota int, listen ...string) string {
		return fmt.Sprintf("listen: [%s]\nadmin: 127.0.0.1:0\nrules: [{name: a, by: ip, limits: %d/min}]\n", strings.Join(listen, ", "), quota)
	}
	web, db := fmt.Sprintf("%q", first), fmt.Sprintf(`{address: "tcp://%s", upstream: %q}`, second, up)
	s := start(t, file(100, web), stopped)
	if got := s.get(t, "/?userId=u"); got.status != http.StatusOK {
		t.Fatalf("got %d", got.status)
	}

	s.change(t, file(1, web, fmt.Sprintf("%q", taken.Addr())), "address already in use")
	if got := s.get(t, "/?userId=u"); got.status != http.StatusOK || got.header.Get("RateLimit") == "" {
		t.Errorf("got %d after a file whose address is taken, want 200", got.status)
	}
	s.expectLog(t, "stays active")

	s.changeTo(t, file(100, web, db))
	conn, ok := call(t, "tcp://"+second, "127.0.0.1", "hello")
	if !ok {
		t.Fatal("the new address is not served")
	}

	s.changeTo(t, file(100, web))
	for {
		if _, ok := call(t, "tcp://"+second, "127.0.0.1", "hello"); !ok || t.Context().Err() != nil {
			break
		}
	}
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
	s.changeTo(t, file(100, fmt.Sprintf("{address: %q, tls: {cert: %q, key: %q}}", first, cert, key)))
	transport := clientTransport(trust)
	defer transport.CloseIdleConnections()
	if got := fetch(t, &http.Client{Transport: transport}, "https://"+first+"/?userId=u"); got.status != http.StatusOK {
		t.Errorf("over TLS: got %d", got.status)
	}
}

// TestTCPStoreAway: without the shared store a listener does as it says.
func TestTCPStoreAway(t *testing.T) {
	up := greeter(t, "hello")
	for word, want := range map[string]bool{"open": true, "closed": false} {
		t.Run(word, func(t *testing.T) {
			s := start(t, tcpFile(up, ", connections: 5/min, open: 5, failure: "+word)+"store: {redis: {url: \"redis://127.0.0.1:1\"}}\n")
			if _, got := call(t, s.urls[1], "127.0.0.1", "hello"); got != want {
				t.Errorf("greeted %v, want %v", got, want)
			}
		})
	}
}

// TestAdminFiles: overrides and audit go where the file says.
func TestAdminFiles(t *testing.T) {
	dir := t.TempDir()
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q, audit_file: %q}\nrules: [{name: api, by: query.userId, limits: 5/min}]\n", dir+"/o.json", dir+"/a.jsonl")
	s := start(t, yaml, stopped, func(o *Options) { o.Audit = "" })
	s.override(t, "api", "query.userId", "u", "1/min")
	for _, name := range []string{"o.json", "a.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(data, []byte("eve")) {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
}

// TestUpstreamHost: an upstream gets the client's Host, or its own.
func TestUpstreamHost(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(w, r.Host); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	s := start(t, fmt.Sprintf("upstream: [{url: %q, path: /own, upstream_host: true}, %q]\nrules: [{name: a, by: ip, limits: 9/min}]\n", up, up), stopped)
	own, client := strings.TrimPrefix(up, "http://"), strings.TrimPrefix(s.url, "http://")
	for path, want := range map[string]string{"/own": own, "/": client} {
		if got := s.get(t, path); got.body != want {
			t.Errorf("%s: Host %q, want %q", path, got.body, want)
		}
	}
}

// TestTCPOutage: how many connections a network is let open while the store is
// away is what lint says of the listener's failure.
func TestTCPOutage(t *testing.T) {
	for _, c := range []struct {
		failure, lint string
		passed        int // of 5; 3 may be open
	}{
		{"open", "connections are accepted", 5},
		{"local", "each process limits by itself", 3},
		{"closed", "connections are reset", 0},
	} {
		t.Run(c.failure, func(t *testing.T) {
			s := start(t, "store: {redis: {url: \"redis://127.0.0.1:1\"}}"+
				tcpFile(greeter(t, "hello"), ", open: 3, failure: "+c.failure))
			passed := 0
			for range 5 {
				if _, ok := call(t, s.urls[1], "127.0.0.1", "hello"); ok {
					passed++
				}
			}
			if passed != c.passed {
				t.Errorf("%d passed, want %d", passed, c.passed)
			}
			conf, err := config.Load(s.file)
			if err != nil {
				t.Fatal(err)
			}
			if said := fmt.Sprint(config.Lint(conf, time.Now())); !strings.Contains(said, "if the store is unavailable: "+c.lint) {
				t.Errorf("lint says %q, want %q", said, c.lint)
			}
		})
	}
}
