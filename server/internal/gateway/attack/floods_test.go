// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// mostMemory is the most memory of a gateway under all floods together, in MiB. It takes about
// 20 before; the race detector multiplies that by five to ten.
func mostMemory() int {
	if testkit.Race() {
		return 2000
	}
	return 300
}

// flood is an action that a client repeats while the gateway permits it.
type flood struct {
	name string
	do   func(t *testing.T, c client, row string)
}

const (
	ended   = endHeaders | endStream
	streams = 10_000
)

var floods = []flood{
	{"rapid reset", func(t *testing.T, c client, row string) {
		for opened := 0; opened < streams; {
			h := c.http2(t)
			for range 1000 {
				stream := h.open(ended, get(row))
				if stream == 0 || !h.frame(frameReset, 0, stream, []byte{0, 0, 0, 8}) {
					break
				}
				opened++
			}
			h.drop(t)
		}
	}},
	{"reset by a window of 0", func(t *testing.T, c client, row string) {
		for range 10 {
			h := c.http2(t)
			for range 200 {
				if stream := h.open(ended, get(row)); stream == 0 || !h.frame(frameWindow, 0, stream, make([]byte, 4)) {
					break
				}
			}
			h.drop(t)
		}
	}},
	{"more streams than are allowed", func(t *testing.T, c client, row string) {
		h := c.http2(t)
		for range 5000 {
			if h.open(ended, get(row, "x-answer", "200 20 0")) == 0 {
				break
			}
		}
		h.drop(t)
	}},
	{"streams that never end", func(t *testing.T, c client, row string) {
		for range 20 {
			h := c.http2(t)
			for range 100 {
				if h.open(endHeaders, get(row)) == 0 {
					break
				}
			}
		}
	}},
	{"CONTINUATION", func(t *testing.T, c client, row string) {
		h := c.http2(t)
		stream := h.open(endStream, get(row))
		part := frame(frameContinuation, 0, stream, block("x-a", strings.Repeat("b", 8000)))
		for range 50_000 { // 400 MB
			if !h.raw(string(part)) {
				break
			}
		}
		h.drop(t)
	}},
	{"CONTINUATION of nothing", func(t *testing.T, c client, row string) {
		h := c.http2(t)
		stream := h.open(endStream, get(row))
		part := strings.Repeat(string(frame(frameContinuation, 0, stream, nil)), 1000)
		for range 500 {
			if !h.raw(part) {
				break
			}
		}
		h.drop(t)
	}},
	{"PING", repeated(frame(framePing, 0, 0, make([]byte, 8)))},
	{"SETTINGS", repeated(frame(frameSettings, 0, 0, []byte{0, 4, 0, 0, 255, 255}))},
	{"PRIORITY", repeated(frame(framePriority, 0, 1, make([]byte, 5)))},
	{"DATA without a byte", func(t *testing.T, c client, row string) {
		h := c.http2(t)
		stream := h.open(endHeaders, get(row))
		part := strings.Repeat(string(frame(frameData, 0, stream, nil)), 1000)
		for range 100 {
			if !h.raw(part) {
				break
			}
		}
		h.drop(t)
	}},
	{"an HPACK bomb", func(t *testing.T, c client, row string) {
		// A field of 4,000 bytes is stored in the table, and then named by one byte.
		h := c.http2(t)
		kept := append([]byte{0x40}, block("x-a", strings.Repeat("b", 4000))[1:]...)
		for range 50 {
			bomb := append(append(get(row), kept...), strings.Repeat("\xbe", 10_000)...)
			if h.open(ended, bomb) == 0 {
				break
			}
			kept = nil
		}
		h.drop(t)
	}},
	{"many small fields", func(t *testing.T, c client, row string) {
		h := c.http2(t)
		h.open(ended, append(get(row), strings.Repeat("\x00\x01a\x00", 4000)...))
		h.drop(t)
	}},
	{"a window of 0", func(t *testing.T, c client, row string) {
		for range 20 {
			h := c.http2(t, 0, 4, 0, 0, 0, 0)
			for range 100 {
				if h.open(ended, get(row)) == 0 {
					break
				}
			}
		}
	}},
	{"a window that overflows", func(t *testing.T, c client, _ string) {
		h := c.http2(t)
		for range 3 {
			h.frame(frameWindow, 0, 0, binary.BigEndian.AppendUint32(nil, 1<<31-1))
		}
		h.drop(t)
	}},
	{"HTTP/1.1: answers that nobody reads", func(t *testing.T, c client, row string) {
		raw := strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\nX-Row: "+row+"\r\n\r\n", 200)
		for range 50 {
			c.write(t, c.dial(t), raw)
		}
	}},
	{"HTTP/1.1: a field without end", endless("GET / HTTP/1.1\r\nHost: x\r\nX-A: ", "b")},
	{"HTTP/1.1: fields without end", endless("GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n")},
	{"HTTP/1.1: a target without end", endless("GET /", "a")},
	{"HTTP/1.1: a size of a chunk without end", endless("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "0")},
	{"HTTP/1.1: extensions of chunks", endless("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1;"+strings.Repeat("a", 2000)+"\r\nx\r\n")},
	{"HTTP/1.1: connections that stand idle", func(t *testing.T, c client, _ string) {
		for range 300 {
			c.dial(t)
		}
	}},
	{"HTTP/1.1: bodies that stand still", func(t *testing.T, c client, row string) {
		for range 200 {
			c.write(t, c.dial(t), "POST / HTTP/1.1\r\nHost: x\r\nX-Row: "+row+"\r\nContent-Length: 1000000\r\n\r\nx")
		}
	}},
}

// endless sends repeated until the gateway hangs up, up to 400 MB.
func endless(begin, repeated string) func(*testing.T, client, string) {
	return func(t *testing.T, c client, _ string) {
		conn := c.dial(t)
		c.write(t, conn, begin)
		part := strings.Repeat(repeated, 1<<20/len(repeated))
		for range 400 {
			if _, err := io.WriteString(conn, part); err != nil {
				break
			}
		}
		_ = conn.Close() // never fails
	}
}

// repeated sends a frame 200,000 times, and reads no answer.
func repeated(frame []byte) func(*testing.T, client, string) {
	return func(t *testing.T, c client, _ string) {
		h := c.http2(t)
		part := strings.Repeat(string(frame), 1000)
		for range 200 {
			if !h.raw(part) {
				break
			}
		}
		h.drop(t)
	}
}

// drop hangs up without reading.
func (h *http2) drop(t *testing.T) {
	t.Helper()
	if tcp, ok := h.Conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			t.Error(err)
		}
	}
	_ = h.Close() // the other side may have
}

// TestFloods: during a client's flood others are served; its requests count, and memory is
// bounded.
func TestFloods(t *testing.T) {
	t.Parallel()
	const quota = 300
	g, u := behind(t, `rules: [{name: all, match: {path: /, except_path: /other}, by: ip, limits: %d/h sliding-log}]`, quota)
	for i, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			row := number("flood", i)
			attacker, other := g.client(address()), g.client(address())
			over := make(chan struct{})
			go func() {
				defer close(over)
				f.do(t, attacker, row)
			}()
			for done := false; !done && !t.Failed(); {
				select {
				case <-over:
					done = true
				default:
				}
				if got := other.get(t, "other", "/other"); got.status != passes {
					t.Errorf("another client got %d", got.status)
				}
			}
			<-over
			arrived := len(u.of(row))
			if evaluated := quota - attacker.own(t, "all"); arrived > evaluated || evaluated > quota {
				t.Errorf("%d requests arrived, and %d of %d were evaluated", arrived, evaluated, quota)
			}
		})
	}
	t.Logf("the gateway took %d MiB at most", g.rss(t))
	if got := g.rss(t); got > mostMemory() {
		t.Errorf("the gateway took %d MiB, want %d at most", got, mostMemory())
	}
}
