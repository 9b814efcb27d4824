// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestLogs: a client that causes log lines by failures cannot fill the log: each kind has a
// few lines a second, whatever the number of failures.
func TestLogs(t *testing.T) {
	t.Parallel()
	const (
		perSecond = 3
		tries     = 50
	)
	cert, key := certificate(t)
	// The listeners: behind a proxy, plain, with TLS, with TLS behind a proxy, TCP behind a
	// proxy.
	const plain, secure, proxied, secureProxied, tcp = 0, 1, 2, 3, 4
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + string(frame(frameSettings, 0, 0, nil))
	frames := func(f ...[]byte) string {
		all := preface
		for _, one := range f {
			all += string(one)
		}
		return all
	}
	type row struct {
		name     string
		listener int
		raw      string
	}
	rows := []row{
		{"not HTTP", plain, "SSH-2.0-x\r\n\r\n"},
		{"a request line that is none", plain, "GET\r\n\r\n"},
		{"a version that is none", plain, "GET / HTTP/9.9\r\n\r\n"},
		{"a name that is none", plain, "GET / HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n"},
		{"a head that is too large", plain, "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 80<<10) + "\r\n\r\n"},
		{"a head that breaks off", plain, "GET / HTTP/1.1\r\nHo"},
		{"two hosts", plain, "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"},
		{"another expectation", plain, "GET / HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n"},
		{"a target that is none", plain, "GET x:y HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"a path that is none", plain, "GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"a query that is none", plain, "GET /?a=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"a query with a semicolon", plain, "GET /?a;b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"a body that breaks off", plain, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"},
		{"a chunk that is none", plain, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
		{"a trailer that is none", plain, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na b: c\r\n\r\n"},
		{"an upgrade that is none", plain, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: \xff\r\n\r\n"},
		{"a switch of protocol", plain, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\n"},
		{"denied", plain, "GET /denied HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"no key", plain, "GET /key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"a token that is none", plain, "GET /claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x.y.z\r\nConnection: close\r\n\r\n"},
		{"an upstream that is down", plain, "GET /down HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"an upstream that speaks something else", plain, "GET /odd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
		{"an upstream that breaks off", plain, "GET /breaks HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"a client that does not stay", plain, "GET / HTTP/1.1\r\nHost: x\r\nX-Answer: 200 20 0\r\n\r\n"},
		{"an address that clients lie about", plain, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n"},

		{"HTTP/2: a preface that is none", plain, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"},
		{"HTTP/2: a preface that breaks off", plain, "PRI * HTTP/2.0\r\n\r\n"},
		{"HTTP/2: a frame that is too large", plain, frames([]byte{255, 255, 255, 0, 0, 0, 0, 0, 1})},
		{"HTTP/2: DATA on no stream", plain, frames(frame(frameData, 0, 1, []byte("x")))},
		{"HTTP/2: a stream of even number", plain, frames(frame(frameHeaders, ended, 2, get("log")))},
		{"HTTP/2: a stream of 0", plain, frames(frame(frameHeaders, ended, 0, get("log")))},
		{"HTTP/2: fields that are none", plain, frames(frame(frameHeaders, ended, 1, []byte{0xff, 0xff, 0xff}))},
		{"HTTP/2: fields without a method", plain, frames(frame(frameHeaders, ended, 1, block("x", "y")))},
		{"HTTP/2: a field of the connection", plain, frames(frame(frameHeaders, ended, 1, get("log", "connection", "close")))},
		{"HTTP/2: a method that is none", plain, frames(frame(frameHeaders, ended, 1, block(":method", "A B", ":scheme", "http", ":authority", "x", ":path", "/")))},
		{"HTTP/2: CONTINUATION of nothing", plain, frames(frame(frameContinuation, endHeaders, 1, nil))},
		{"HTTP/2: a reset of nothing", plain, frames(frame(frameReset, 0, 1, make([]byte, 4)))},
		{"HTTP/2: a reset that is none", plain, frames(frame(frameReset, 0, 1, nil))},
		{"HTTP/2: settings that are none", plain, frames(frame(frameSettings, 0, 0, []byte{0, 4, 255, 255, 255, 255}))},
		{"HTTP/2: settings of a stream", plain, frames(frame(frameSettings, 0, 1, nil))},
		{"HTTP/2: a window of 0", plain, frames(frame(frameWindow, 0, 0, make([]byte, 4)))},
		{"HTTP/2: a window that overflows", plain, frames(frame(frameWindow, 0, 0, []byte{0x7f, 255, 255, 255}))},
		{"HTTP/2: a PING that is none", plain, frames(frame(framePing, 0, 0, nil))},
		{"HTTP/2: GOAWAY", plain, frames(frame(frameGoAway, 0, 0, []byte{0, 0, 0, 0, 0, 0, 0, 1, 'x'}))},
		{"HTTP/2: a frame that is not known", plain, frames(frame(99, 0, 1, nil))},

		{"an upstream that answers HEAD with a body", plain, "HEAD / HTTP/1.1\r\nHost: x\r\nX-Body: yes\r\nConnection: close\r\n\r\n"},

		{"TLS: not a handshake", secure, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"TLS: bytes", secure, "\x00\x01\x02\x03\x04\x05\x06\x07"},
		{"TLS: a handshake that breaks off", secure, "\x16\x03\x01\x02\x00\x01"},
		{"TLS: an alert", secure, "\x15\x03\x03\x00\x02\x02\x28"},
		{"TLS: nothing", secure, ""},

		{"PROXY: none", proxied, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"PROXY: an address that is none", proxied, "PROXY TCP4 x y 1 2\r\n"},
		{"PROXY: one that breaks off", proxied, "PROXY TCP4 "},
		{"PROXY: version 2, of another kind", proxied, "\r\n\r\n\x00\r\nQUIT\n\x2f\xff\x00\x00"},
		{"PROXY: nothing", proxied, ""},
		{"PROXY and TLS: none", secureProxied, "\x16\x03\x01\x02\x00\x01"},
		{"PROXY and TLS: not a handshake", secureProxied, "PROXY TCP4 203.0.113.1 192.0.2.1 1 2\r\nGET / HTTP/1.1\r\n\r\n"},
		{"PROXY and TCP: none", tcp, "x\r\n"},
		{"PROXY and TCP: an upstream that is down", tcp, "PROXY TCP4 203.0.113.1 192.0.2.1 1 2\r\nx\r\n"},
	}
	const down = "127.0.0.1:1"
	odd := speaker(t, "220 mail ESMTP\r\n")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, fmt.Sprintf(`
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", tls: {cert: %[1]q, key: %[2]q}}
  - {address: "127.0.0.3:0", proxy_protocol: 127.0.0.0/8}
  - {address: "127.0.0.4:0", proxy_protocol: 127.0.0.0/8, tls: {cert: %[1]q, key: %[2]q}}
  - {address: "127.0.0.5:0", serve: tcp, proxy_protocol: 127.0.0.0/8, upstream: %[3]q, name: db}
admin: 127.0.0.1:0
tokens: {hmac_file: %[4]q}
upstream:
  - {url: "http://%[3]s", path: /down}
  - {url: "http://%[5]s", path: /odd}
  - {url: "http://%[6]s", path: /breaks}
  - %[7]s
rules:
  - {name: denied, match: {path: /denied}, by: ip, limits: 1/h}
  - {name: key, match: {path: /key}, by: header.X-Key, limits: 1000/h}
  - {name: claim, match: {path: /claim}, by: claim.sub, limits: 1000/h}
`, cert, key, down, secret, odd, speaker(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), newUpstream(t).url()))
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before, started := g.logs.count(), time.Now()
			for range tries {
				g.report(t, r.listener, r.raw)
			}
			// Late lines belong to this row, too.
			g.report(t, plain, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			got, most := g.logs.count()-before, perSecond*(2+int(time.Since(started)/time.Second))
			if got > most {
				all := strings.Split(strings.TrimSpace(g.logs.String()), "\n")
				t.Errorf("%d lines in %v, want %d at most; the last is %q", got, time.Since(started), most, all[len(all)-1])
			}
		})
	}
}

// report sends a text to a listener, and hangs up after the answer.
func (g *gate) report(t *testing.T, listener int, raw string) {
	t.Helper()
	conn, err := net.Dial("tcp", g.addresses[listener])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // the other side may have
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	_, _ = io.WriteString(conn, raw)                                            // it may have hung up
	if tcp, ok := conn.(*net.TCPConn); ok && !strings.HasPrefix(raw, "HEAD ") { // it waits for its answer
		_ = tcp.CloseWrite() // it may have hung up
	}
	if !strings.HasPrefix(raw, "PRI ") {
		_, _ = io.Copy(io.Discard, conn) // it may be reset
		if strings.HasPrefix(raw, "HEAD ") {
			time.Sleep(10 * time.Millisecond) // until the upstream has sent more, to nobody
		}
		return
	}
	// The gateway announces that it will hang up, and waits for a second.
	h := &http2{Conn: conn, in: bufio.NewReader(conn)}
	for {
		if kind, _, _, _, err := h.read(); err != nil || kind == frameGoAway || kind == frameReset {
			return
		}
	}
}

// speaker is an upstream that sends the same text to every request, and hangs up.
func speaker(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // never fails
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// certificate writes a self-signed certificate.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	certPEM, keyPEM := testkit.Certificate(t, "x", time.Now().Add(time.Hour))
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(cert, certPEM, 0o600), os.WriteFile(key, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}
