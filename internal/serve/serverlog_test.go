// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerLog: of each kind of line there is one a second, and one kind does
// not hide another. What clients do is warned of, and no error of the program.
func TestServerLog(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		to := slog.NewLogLogger(newServerLog(slog.New(slog.NewTextHandler(&out, nil))), slog.LevelError)
		for i := range 100 {
			to.Printf("http: TLS handshake error from 192.0.2.%d:4711: EOF", i)
			to.Printf("http2: server connection error from 192.0.2.%d:4711: connection error: PROTOCOL_ERROR", i)
		}
		time.Sleep(time.Second)
		to.Print("http: TLS handshake error from 192.0.2.200:4711: EOF")
		to.Print("http: panic serving 192.0.2.1:4711: x")
		to.Print("http2: panic serving 192.0.2.2:4711: y")
		to.Print("http: Accept error: accept tcp: too many open files; retrying in 5ms")
		time.Sleep(1500 * time.Millisecond)
		for i := range 1000 {
			to.Printf("line %d that is not known", i)
		}
		time.Sleep(time.Minute) // in which what was left out is reported
		synctest.Wait()
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range [][]string{
		{"level=WARN", `msg="TLS handshake"`, "192.0.2.0:4711: EOF", "unreported=0"},
		{"level=WARN", `msg="http2: server connection error"`, "192.0.2.0:4711: connection error", "unreported=0"},
		{"level=WARN", "192.0.2.200:4711: EOF", "unreported=99"},
		{"level=ERROR", `msg="panic serving"`, "192.0.2.1:4711: x"},
		{"level=ERROR", "msg=accept", "too many open files"},
		{"level=WARN", "192.0.2.99:4711: connection error", "unreported=98"},
		{"level=ERROR", "msg=server", "line 0 that", "unreported=0"},
		{"level=ERROR", `msg="panic serving"`, "192.0.2.2:4711: y", "unreported=0"},
		{"level=ERROR", "line 999 that", "unreported=998"},
	} {
		for _, text := range want {
			if i >= len(lines) || !strings.Contains(lines[i], text) {
				t.Errorf("line %d: want %q in %q", i+1, text, lines)
			}
		}
	}
	if len(lines) != 9 {
		t.Errorf("got %d lines, want 9", len(lines))
	}
}

// sendText sends a text to a listener, and reads until it hangs up.
func sendText(t *testing.T, url, text string) {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, conn)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn) // it may be reset
}

// TestFailedHandshakes: they are warned of, and no errors of the program.
func TestFailedHandshakes(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	s := start(t, fmt.Sprintf("listen: {address: 127.0.0.1:0, tls: {cert: %q, key: %q}}\nrules: [{name: all, by: ip, limits: 2/min}]\n", cert, key))
	for range 3 {
		sendText(t, s.url, "not a handshake at all\r\n\r\n")
	}
	until(t, "the log to say so", func() bool {
		return strings.Contains(s.logs.String(), `level=WARN msg="TLS handshake" part=listener`)
	})
}

// TestRefusedHeaders: a proxy that sends no header is reported once, whatever
// lies over it.
func TestRefusedHeaders(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	for _, c := range []struct{ name, listen string }{
		{"HTTP", `{address: 127.0.0.1:0, proxy_protocol: 127.0.0.0/8}`},
		{"TLS", fmt.Sprintf("{address: 127.0.0.1:0, proxy_protocol: 127.0.0.0/8, tls: {cert: %q, key: %q}}", cert, key)},
		{"TCP", fmt.Sprintf(`{address: "tcp://127.0.0.1:0", proxy_protocol: 127.0.0.0/8, upstream: %q}`, strings.TrimPrefix(named(t, "up"), "http://"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, "listen: "+c.listen+"\nrules: [{name: all, by: ip, limits: 2/min}]\n")
			sendText(t, s.url, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			const want = "let the proxy send one, or take it off the list"
			until(t, "the log to say so", func() bool { return strings.Contains(s.logs.String(), want) })
			s.end(t)
			if got := strings.Count(s.logs.String(), want); got != 1 {
				t.Errorf("reported %d times, want once: %s", got, s.logs)
			}
		})
	}
}
