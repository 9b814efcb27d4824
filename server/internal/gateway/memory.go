// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/internal/wire"
)

// Memory counted for each, in bytes, as measured with the parts of the runtime and the
// transport.
const (
	connectionBytes = 24 << 10 // for an open connection
	requestBytes    = 40 << 10 // for a request in progress, beside its connection and header
	freeHeader      = 4 << 10  // of a header, included in connectionBytes
)

// Memory bounds the memory that clients make a server use if the process has a memory limit:
// connections, headers received in part, and requests in progress. It admits as many
// connections as can each have a request over HTTP/1. A quarter is reserved for such requests:
// not for incomplete or large headers, nor for the many requests of HTTP/2. A connection
// without memory for itself or its header is closed; a request is answered with 503. It is
// safe for concurrent use. A nil Memory bounds nothing.
type Memory struct {
	most  int64
	taken atomic.Int64
	open  atomic.Int64 // connections
	log   sampledlog.Log

	connections, headers, requests atomic.Int64 // refused
}

// MemoryStats are the bytes that a [Memory] has taken, and the numbers of its refusals.
type MemoryStats struct {
	Most, Taken                    int64
	Connections, Headers, Requests int64
}

// NewMemory returns a Memory for a process with a memory limit in bytes. Clients may use two
// fifths of it, as the garbage collector needs as much again. It is nil without a limit, which is
// [math.MaxInt64]. The log receives refusals, at most one a second.
func NewMemory(limit int64, log *slog.Logger) *Memory {
	if limit == math.MaxInt64 {
		return nil
	}
	return &Memory{most: limit / 5 * 2, log: sampledlog.Log{Logger: log, Part: "memory"}}
}

// Stats returns the counts.
func (m *Memory) Stats() MemoryStats {
	if m == nil {
		return MemoryStats{}
	}
	return MemoryStats{m.most, m.taken.Load(), m.connections.Load(), m.headers.Load(), m.requests.Load()}
}

// Unread returns how many unread bytes of bodies an HTTP/2 connection may keep: most, or with
// a Memory at most 64 KiB, the least that net/http accepts.
func (m *Memory) Unread(most int) int {
	if m == nil {
		return most
	}
	return min(most, 64<<10)
}

// take takes n bytes if the total stays within most, and reports whether it did.
func (m *Memory) take(n, most int64) bool {
	for {
		taken := m.taken.Load()
		if taken+n > most {
			return false // nothing was added, so that no other take was refused for it
		}
		if m.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

func (m *Memory) takeConnection() bool {
	if m.open.Add(1) <= m.most/(connectionBytes+requestBytes) && m.take(connectionBytes, m.most) {
		return true
	}
	m.open.Add(-1)
	return false
}

// shared returns the bytes that are not reserved for ordinary requests.
func (m *Memory) shared() int64 { return m.most / 4 * 3 }

func (m *Memory) giveBack(n int64) { m.taken.Add(-n) }

var errMemory = errors.New("clients use all the memory that GOMEMLIMIT leaves them; raise it, or bound what each client network may open and have in flight")

func (m *Memory) refuse(ctx context.Context, count *atomic.Int64, what string) {
	count.Add(1)
	m.log.Warn(ctx, what, errMemory)
}

// Listen returns a listener that closes connections for which there is no memory. It belongs
// below TLS.
func (m *Memory) Listen(l net.Listener) net.Listener {
	if m == nil {
		return l
	}
	return &memoryListener{l, m}
}

type memoryListener struct {
	net.Listener
	memory *Memory
}

func (l *memoryListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if m := l.memory; !m.takeConnection() {
			m.refuse(context.Background(), &m.connections, "a connection was closed")
			_ = c.Close() // nothing was sent
			continue
		}
		return &memoryConn{Conn: c, memory: l.memory}, nil
	}
}

// memoryConn counts the bytes received while no request is in progress: the TLS hello and
// headers.
type memoryConn struct {
	net.Conn
	memory  *Memory
	runs    atomic.Bool  // whether a request is in progress
	come    atomic.Int64 // bytes since the last request
	counted atomic.Int64 // of these, taken from memory
	closed  atomic.Bool
}

// Read reads from the connection. Without memory it returns the error of a broken connection,
// which a server does not answer.
func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 || c.runs.Load() {
		return n, err
	}
	more := c.come.Add(int64(n)) - freeHeader - c.counted.Load()
	if more <= 0 {
		return n, err
	}
	m := c.memory
	if !m.take(more, m.shared()) {
		m.refuse(context.Background(), &m.headers, "a connection was closed behind a part of a header")
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: errMemory}
	}
	c.counted.Add(more)
	return n, err
}

// follow is called when a request begins or ends.
func (c *memoryConn) follow(runs bool) {
	c.runs.Store(runs)
	c.come.Store(0)
	c.memory.giveBack(c.counted.Swap(0))
}

// Close closes the connection.
func (c *memoryConn) Close() error {
	if !c.closed.Swap(true) {
		defer func() {
			c.memory.open.Add(-1)
			c.memory.giveBack(connectionBytes + c.counted.Swap(0))
		}()
	}
	return c.Conn.Close()
}

// NetConn returns the connection below.
func (c *memoryConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the side to the client and leaves the other open. It fails if the
// connection below cannot do that.
func (c *memoryConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }

// ConnState is the ConnState of the [http.Server] that uses Listen and Wrap.
func (m *Memory) ConnState(c net.Conn, s http.ConnState) {
	if m == nil {
		return
	}
	if own, ok := under[*memoryConn](c); ok {
		own.follow(s == http.StateActive || s == http.StateHijacked)
	}
}

// Wrap returns a handler that answers with 503 and calls refused if there is no memory for a
// request. It must wrap every other handler.
func (m *Memory) Wrap(next http.Handler, refused func()) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requestBytes + headerBytes(r)
		most := m.most
		if r.ProtoMajor > 1 || n > requestBytes {
			most = m.shared()
		}
		if !m.take(n, most) {
			m.refuse(r.Context(), &m.requests, "a request was refused")
			refused()
			w.Header().Set("Retry-After", "1")
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close") // the body is not read
			}
			writeProblem(w, http.StatusServiceUnavailable, "this gateway has no memory left for the request; it was not sent")
			if r.ContentLength != 0 {
				answeredEarly(r)
			}
			return
		}
		defer m.giveBack(n)
		next.ServeHTTP(w, r)
	})
}

// headerBytes returns the size of a request's header beyond freeHeader.
func headerBytes(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return int64(max(n-freeHeader, 0))
}
