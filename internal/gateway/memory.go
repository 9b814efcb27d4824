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

// What is counted for each, in bytes: what they were measured to take, the
// runtime's and the transport's parts included.
const (
	connectionBytes = 24 << 10 // that is open
	requestBytes    = 40 << 10 // that runs, beside its connection and its header
	freeHeader      = 4 << 10  // of a header, which connectionBytes include
)

// Memory bounds what clients make a server keep, where the process may take so much
// memory and no more: their connections, the headers that they have begun to send,
// and the requests that run. There may be as many connections as can all have a request
// over HTTP/1, and a quarter is for such requests alone: not for headers that are not
// there yet, nor for large ones, nor for the many requests of HTTP/2. A connection for
// which there is none is closed, and so is one whose header finds none; a request is
// answered with 503. It is safe for concurrent use. A nil Memory bounds nothing.
type Memory struct {
	most  int64
	taken atomic.Int64
	open  atomic.Int64 // connections
	log   sampledlog.Log

	connections, headers, requests atomic.Int64 // refused
}

// MemoryStats say what a [Memory] holds, in bytes, and what it has refused since it
// was made.
type MemoryStats struct {
	Most, Taken                    int64
	Connections, Headers, Requests int64
}

// NewMemory returns a Memory for a process that may take so many bytes: two fifths
// of them are for clients, as the collector needs as much again. It is nil if there
// is no such bound, which [math.MaxInt64] stands for. The log gets, at most once a
// second, what was refused.
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

// Unread returns how many bytes of bodies a connection over HTTP/2 may have kept that
// nobody has read: most, or the 64 KiB below which net/http does not go.
func (m *Memory) Unread(most int) int {
	if m == nil {
		return most
	}
	return min(most, 64<<10)
}

// take takes n bytes unless there would be more than most. It reports whether it did.
func (m *Memory) take(n, most int64) bool {
	for {
		taken := m.taken.Load()
		if taken+n > most {
			return false // and there is nothing for which another would be refused meanwhile
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

// shared returns what is not for ordinary requests alone.
func (m *Memory) shared() int64 { return m.most / 4 * 3 }

func (m *Memory) giveBack(n int64) { m.taken.Add(-n) }

var errMemory = errors.New("clients take as much memory as they may by GOMEMLIMIT; raise it, or bound what each client network may open and have in flight")

func (m *Memory) refuse(ctx context.Context, count *atomic.Int64, what string) {
	count.Add(1)
	m.log.Warn(ctx, what, errMemory)
}

// Listen returns a listener of the connections of another one, but for those for
// which there is no memory: these are closed. It belongs below TLS.
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

// memoryConn counts what has come on a connection on which no request runs: the
// hello of TLS, and headers.
type memoryConn struct {
	net.Conn
	memory  *Memory
	runs    atomic.Bool  // a request
	come    atomic.Int64 // bytes since none did
	counted atomic.Int64 // of them
	closed  atomic.Bool
}

// Read reads what has come. Its error is that of a connection that broke, which a
// server does not answer, if there is no memory for it.
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

// CloseWrite ends what the client is sent and leaves what it sends open. It is an
// error where the connection below cannot do that.
func (c *memoryConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }

// ConnState passes to a [Memory] the states of connections: it is for that field of
// the [http.Server] that Listen and Wrap are for.
func (m *Memory) ConnState(c net.Conn, s http.ConnState) {
	if m == nil {
		return
	}
	if own, ok := under[*memoryConn](c); ok {
		own.follow(s == http.StateActive || s == http.StateHijacked)
	}
}

// Wrap returns a handler that answers with 503 where there is no memory for a
// request, and calls refused. It belongs around every other handler.
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
				w.Header().Set("Connection", "close") // and what stands behind it is not read
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

// headerBytes returns how much the header of a request takes beyond what is counted
// for every one.
func headerBytes(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return int64(max(n-freeHeader, 0))
}
