// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// Bounds of a lingering connection.
const (
	lingerSilence = 5 * time.Second  // from one byte of the client to the next
	lingerTime    = 30 * time.Second // in all
	lingerDrain   = 5 * time.Second  // in all, while the server stops
	lingerBytes   = 256 << 20
)

// Lingering reads and drops the rest of HTTP/1 requests that were answered before their end,
// so that clients that read only after sending get the answer. Otherwise a system resets a
// connection closed with unread bytes, and the answer is lost. Time, bytes and the number of
// such connections are bounded. Above that number the oldest is closed, as most clients send
// the rest at once and the oldest are those that trickle. It is safe for concurrent use.
type Lingering struct {
	mu       sync.Mutex
	most     int
	conns    list.List // of *lingeringConn, oldest first
	draining bool
	ended    LingeringStats
}

// LingeringStats counts the lingering connections, and how others have ended.
type LingeringStats struct {
	Open   int64 // now
	Client int64 // by the client, which has the answer or has left
	Bound  int64 // by a bound of time or bytes
	Full   int64 // closed for another one, as too many lingered
}

// NewLingering returns a Lingering of at most that many connections at once, at least 1.
func NewLingering(most int64) *Lingering {
	l := &Lingering{}
	l.Resize(most)
	return l
}

// Resize changes the bound to most, at least 1.
func (l *Lingering) Resize(most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = int(max(most, 1))
	l.shrink()
}

// Stats returns the counts.
func (l *Lingering) Stats() LingeringStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.ended
	s.Open = int64(l.conns.Len())
	return s
}

// Drain bounds each lingering connection to 5 s in all, so that denied clients do not delay a
// stop of the server.
func (l *Lingering) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for e := l.conns.Front(); e != nil; e = e.Next() {
		c := e.Value.(*lingeringConn)                   // the list has no other type
		_ = c.SetReadDeadline(c.began.Add(lingerDrain)) // an error means that it is closed
	}
}

// enter adds a connection to the lingering ones.
func (l *Lingering) enter(c *lingeringConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.began = time.Now()
	c.place = l.conns.PushBack(c)
	l.shrink()
}

// shrink closes the oldest connections above most. The caller holds l.mu.
func (l *Lingering) shrink() {
	for l.conns.Len() > l.most {
		c := l.conns.Remove(l.conns.Front()).(*lingeringConn) // as above
		c.place = nil
		l.ended.Full++
		_ = c.Conn.Close() // Close returns the error
	}
}

// leave counts how a connection ended, unless it was closed for another one.
func (l *Lingering) leave(c *lingeringConn, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.place == nil:
		return
	case bound:
		l.ended.Bound++
	default:
		l.ended.Client++
	}
	l.conns.Remove(c.place)
}

// deadline returns when the client must have sent its next byte.
func (l *Lingering) deadline(c *lingeringConn) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	silence, end := time.Now().Add(lingerSilence), c.began.Add(lingerTime)
	if l.draining {
		end = c.began.Add(lingerDrain)
	}
	if end.Before(silence) {
		return end
	}
	return silence
}

// Listen returns a listener whose connections linger. It belongs below a [Memory], which
// counts bytes of requests, and above listeners that count connections.
func (l *Lingering) Listen(from net.Listener) net.Listener { return &lingeringListener{from, l} }

type lingeringListener struct {
	net.Listener
	of *Lingering
}

func (l *lingeringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lingeringConn{Conn: c, of: l.of}, nil
}

// lingeringKey is the context key of a request's connection.
type lingeringKey struct{}

// ConnContext is the ConnContext of the [http.Server] that uses Listen. No connection lingers
// after ctx has ended.
func (l *Lingering) ConnContext(ctx context.Context, c net.Conn) context.Context {
	own, ok := under[*lingeringConn](c)
	if !ok {
		return ctx
	}
	own.atEnd = func(end func()) (stop func() bool) { return context.AfterFunc(ctx, end) }
	return context.WithValue(ctx, lingeringKey{}, own)
}

// ConnState is the ConnState of that server: an idle connection has read its last request to
// the end.
func (l *Lingering) ConnState(c net.Conn, s http.ConnState) {
	if s != http.StateIdle {
		return
	}
	if own, ok := under[*lingeringConn](c); ok {
		own.unread.Store(false)
	}
}

// answeredEarly makes a request's connection linger, unless the server reads the rest itself.
func answeredEarly(r *http.Request) {
	if c, ok := r.Context().Value(lingeringKey{}).(*lingeringConn); ok && r.ProtoMajor == 1 {
		c.unread.Store(true)
	}
}

// under returns the connection of type C among c and those below it.
func under[C net.Conn](c net.Conn) (found C, ok bool) {
	for {
		if found, ok = c.(C); ok {
			return found, true
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return found, false
		}
		c = over.NetConn()
	}
}

// lingeringConn is a connection whose Close waits if a request was not read to its end.
type lingeringConn struct {
	net.Conn
	of     *Lingering
	atEnd  func(end func()) (stop func() bool) // calls end when the server ends
	unread atomic.Bool

	began time.Time     // when it began to linger
	place *list.Element // among the lingering ones; nil once it was closed for another one
}

// Close closes the connection; the first call lingers before.
func (c *lingeringConn) Close() error {
	if c.unread.Swap(false) {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *lingeringConn) linger() {
	c.of.enter(c)
	defer c.atEnd(func() { _ = c.Conn.Close() })() // Close returns the error
	_ = c.CloseWrite()                             // the client sees the end of the answer; an error means that it is gone
	n, err := io.Copy(io.Discard, io.LimitReader(rest{c}, lingerBytes))
	c.of.leave(c, n == lingerBytes || errors.Is(err, os.ErrDeadlineExceeded))
}

// rest reads further bytes of a connection, within the bounds of time.
type rest struct{ *lingeringConn }

func (r rest) Read(p []byte) (int, error) {
	if err := r.SetReadDeadline(r.of.deadline(r.lingeringConn)); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// NetConn returns the connection below.
func (c *lingeringConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the side to the client and leaves the other open. It fails if the
// connection below cannot do that.
func (c *lingeringConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
