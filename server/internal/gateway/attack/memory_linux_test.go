// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

const (
	memoryLimit = "200MiB"
	mostRSS     = 256 // MiB, of a process with that limit
)

// crowd returns the number of simultaneous connections: if all were admitted, they would take
// twice the memory. The test process also holds the upstream's descriptors.
func crowd(t *testing.T) int {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	return int(min(8000, l.Cur*2/5))
}

// TestMemory: a gateway with a memory limit keeps it under crowds that send data to be kept,
// and an existing client is served.
func TestMemory(t *testing.T) {
	testkit.Long(t) // the race detector takes several times the memory; gateway TestMemory has the bounds
	large := strings.Repeat("a", 60_000)
	for _, c := range []struct {
		name, text string
	}{
		{"headers that do not end", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + large},
		{"held, with large headers", "GET /held HTTP/1.1\r\nHost: x\r\nX-A: " + large + "\r\n\r\n"},
		{"uploads that stand still", "POST /upload HTTP/1.1\r\nHost: x\r\nX-Row: memory\r\nContent-Length: 100000\r\n\r\n" + large},
		{"held, over HTTP/2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", memoryLimit)
			g, _ := behind(t, `rules: [{name: held, match: {path: /held}, by: ip, limits: 1/min leaky-bucket burst 20000, max_wait: 1h}]`)
			other := g.client(address()).dial(t)
			in := bufio.NewReader(other)
			serve := func() int {
				t.Helper()
				if err := other.SetDeadline(time.Now().Add(patience)); err != nil { // the crowd may take longer
					t.Fatal(err)
				}
				if _, err := io.WriteString(other, "GET /other HTTP/1.1\r\nHost: x\r\nX-Row: other\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				r, err := readReply(in)
				if err != nil {
					t.Fatal(err)
				}
				return r.status
			}
			if got := serve(); got != http.StatusOK {
				t.Fatalf("got %d", got)
			}
			n := crowd(t) // or as many streams over HTTP/2
			for i := range n {
				if c.text == "" {
					if i%100 == 0 {
						g.client(address()).manyStreams(t, large)
					}
					continue
				}
				attacker := g.client(fmt.Sprintf("203.0.113.%d", i%200))
				conn := attacker.dial(t)
				attacker.write(t, conn, c.text)
			}
			if got := serve(); got != http.StatusOK {
				t.Errorf("another client got %d, want 200", got)
			}
			t.Logf("%d: the gateway took %d MiB at most", n, g.rss(t))
			if got := g.rss(t); got > mostRSS {
				t.Errorf("the gateway took %d MiB, want %d at most", got, mostRSS)
			}
		})
	}
}

// manyStreams opens 100 streams with a large header each.
func (c client) manyStreams(t *testing.T, large string) {
	t.Helper()
	h := c.http2(t)
	for range 100 {
		fields := block(":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/held", "x-a", large)
		first := fields[:16_000]
		if h.open(endStream, first) == 0 {
			return
		}
		for rest := fields[16_000:]; len(rest) > 0; {
			part := rest[:min(len(rest), 16_000)]
			rest = rest[len(part):]
			flags := byte(0)
			if len(rest) == 0 {
				flags = endHeaders
			}
			if !h.frame(frameContinuation, flags, h.stream, part) {
				return
			}
		}
	}
	if !h.frame(framePing, 0, 0, make([]byte, 8)) {
		return
	}
	for { // until the gateway has seen all of it, or has hung up
		if kind, flags, _, _, err := h.read(); err != nil || kind == framePing && flags&ack != 0 {
			return
		}
	}
}
