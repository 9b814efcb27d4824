// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// broken sends a text, reads until end arrives, and hangs up.
func broken(ctx context.Context, address, text, end string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it may be reset
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	var came []byte
	for part := make([]byte, 512); ; {
		n, err := conn.Read(part)
		came = append(came, part[:n]...)
		if err != nil || end != "" && strings.Contains(string(came), end) {
			return nil // a reset is an end, too
		}
	}
}

var unreported = regexp.MustCompile(`unreported=(\d+)`)

// TestFloodOfFailures: a client that makes connections fail at any rate does not fill the
// disk: each kind has a line a second, and every failure is counted.
func TestFloodOfFailures(t *testing.T) {
	t.Parallel()
	const flood, senders = 400, 40
	cert, key, _ := testkit.CertificateFiles(t)
	s := servetest.Start(t, fmt.Sprintf(`listen: [127.0.0.1:0, {address: "localhost:0", tls: {cert: %q, key: %q}}]`+"\nrules: [{name: all, by: ip, limits: 2/min}]\n", cert, key))
	for _, c := range []struct{ name, url, text, end, kind string }{
		{
			"HTTP/2", s.URLs[0],
			// The preface, empty SETTINGS, and a PING on a stream, which is
			// an error of the connection. A GOAWAY (type 7) answers it.
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x06\x00\x00\x00\x00\x0112345678",
			"\x00\x00\x08\x07\x00\x00\x00\x00\x00", "http2: server connection error",
		},
		{"TLS", s.URLs[1], "not a handshake at all\r\n\r\n", "", `level=WARN msg="TLS handshake" part=listener`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, address, _ := strings.Cut(c.url, "://")
			start := time.Now()
			var wait sync.WaitGroup
			for range senders {
				wait.Go(func() {
					for range flood / senders {
						if err := broken(t.Context(), address, c.text, c.end); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wait.Wait()
			lines := 0
			testkit.Until(t, "the log to report all", func() bool {
				lines = 0
				reported := 0
				for line := range strings.Lines(s.Logs.String()) {
					if !strings.Contains(line, c.kind) {
						continue
					}
					lines++
					reported++
					if m := unreported.FindStringSubmatch(line); m != nil {
						n, err := strconv.Atoi(m[1])
						if err != nil {
							t.Fatal(err)
						}
						reported += n
					}
				}
				return reported == flood
			})
			if most := 2 + int(time.Since(start)/time.Second); lines > most {
				t.Errorf("%d lines of %d failures, want %d at most", lines, flood, most)
			}
		})
	}
}

// sendText sends a text to a listener, and reads until the listener hangs up.
func sendText(t *testing.T, url, text string) {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	conn := servetest.Dial(t, address, text)
	_, _ = io.Copy(io.Discard, conn) // it may be reset
}

// TestRefusedHeaders: a proxy without a header is logged once, under any protocol above.
func TestRefusedHeaders(t *testing.T) {
	t.Parallel()
	cert, key, _ := testkit.CertificateFiles(t)
	for _, c := range []struct{ name, listen string }{
		{"HTTP", `{address: 127.0.0.1:0, proxy_protocol: 127.0.0.0/8}`},
		{"TLS", fmt.Sprintf("{address: 127.0.0.1:0, proxy_protocol: 127.0.0.0/8, tls: {cert: %q, key: %q}}", cert, key)},
		{"TCP", fmt.Sprintf(`{address: "127.0.0.1:0", serve: tcp, proxy_protocol: 127.0.0.0/8, upstream: %q}`, strings.TrimPrefix(servetest.Named(t, "up"), "http://"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.Start(t, "listen: "+c.listen+"\nrules: [{name: all, by: ip, limits: 2/min}]\n")
			sendText(t, s.URL, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			const want = "let the proxy send one, or take it off the list"
			testkit.Until(t, "the log to say so", func() bool { return strings.Contains(s.Logs.String(), want) })
			s.End(t)
			if got := strings.Count(s.Logs.String(), want); got != 1 {
				t.Errorf("reported %d times, want once: %s", got, s.Logs)
			}
		})
	}
}
