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

// Bounds of one connection that lingers.
const (
	lingerSilence = 5 * time.Second  // from one byte of the client to the next
	lingerTime    = 30 * time.Second // in all
	lingerDrain   = 5 * time.Second  // in all, while the server stops
	lingerBytes   = 256 << 20
)

// Lingering reads on what clients send of requests over HTTP/1 that were answered before
// their end, and drops it: so clients that read an answer when all is sent get it. A system
// resets a connection that is closed with bytes unread, and the answer is lost. The time
// and the bytes are bounded, and the number of such connections: above that the one that
// lingers longest is closed, as most clients send the rest at once and those that trickle
// are the oldest. It is safe for concurrent use.
type Lingering struct {
	mu       sync.Mutex
	most     int
	conns    list.List // of *lingeringConn, the oldest in front
	draining bool
	ended    LingeringStats
}

// LingeringStats say how many connections linger, and how others ended since it was made.
type LingeringStats struct {
	Open   int64 // now
	Client int64 // by the client, who has the answer or has left
	Bound  int64 // by a bound of time or bytes
	Full   int64 // for another one, as too many lingered
}

// NewLingering returns a Lingering of so many connections at once, at least 1.
func NewLingering(most int64) *Lingering {
	l := &Lingering{}
	l.Resize(most)
	return l
}

// Resize makes it so many, at least 1.
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

// Drain has no connection linger for more than 5 s in all any more, so that clients which
// were denied do not delay a stop of the server.
func (l *Lingering) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for e := l.conns.Front(); e != nil; e = e.Next() {
		c := e.Value.(*lingeringConn)                   // nothing else is put in
		_ = c.SetReadDeadline(c.began.Add(lingerDrain)) // an error means that it is closed
	}
}

// enter counts a connection among those that linger.
func (l *Lingering) enter(c *lingeringConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.began = time.Now()
	c.place = l.conns.PushBack(c)
	l.shrink()
}

// shrink closes the oldest connections above the most. The caller holds l.mu.
func (l *Lingering) shrink() {
	for l.conns.Len() > l.most {
		c := l.conns.Remove(l.conns.Front()).(*lingeringConn) // as above
		c.place = nil
		l.ended.Full++
		_ = c.Conn.Close() // Close reports it
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

// deadline returns when the client of a connection must have sent its next byte.
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

// Listen returns a listener of the connections of another one, that linger. It belongs
// below a [Memory], whose bytes are those of requests, and above what counts connections.
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

// lingeringKey is that of a request's connection in its context.
type lingeringKey struct{}

// ConnContext is for that field of the [http.Server] that Listen is for. No connection
// lingers any more when ctx has ended.
func (l *Lingering) ConnContext(ctx context.Context, c net.Conn) context.Context {
	own, ok := under[*lingeringConn](c)
	if !ok {
		return ctx
	}
	own.atEnd = func(end func()) (stop func() bool) { return context.AfterFunc(ctx, end) }
	return context.WithValue(ctx, lingeringKey{}, own)
}

// ConnState is for that field, too: a connection that takes the next request has had the
// last one to its end.
func (l *Lingering) ConnState(c net.Conn, s http.ConnState) {
	if s != http.StateIdle {
		return
	}
	if own, ok := under[*lingeringConn](c); ok {
		own.unread.Store(false)
	}
}

// answeredEarly has a request's connection linger, unless the server reads the rest by itself.
func answeredEarly(r *http.Request) {
	if c, ok := r.Context().Value(lingeringKey{}).(*lingeringConn); ok && r.ProtoMajor == 1 {
		c.unread.Store(true)
	}
}

// under returns the connection of a type among a connection and those below it.
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

// lingeringConn is a connection that is closed later where a request is not read to its end.
type lingeringConn struct {
	net.Conn
	of     *Lingering
	atEnd  func(end func()) (stop func() bool) // has the end of the server call end
	unread atomic.Bool

	began time.Time     // when it began to linger
	place *list.Element // among those that linger, nil once it was closed for another one
}

// Close closes the connection, the first time when it has lingered.
func (c *lingeringConn) Close() error {
	if c.unread.Swap(false) {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *lingeringConn) linger() {
	c.of.enter(c)
	defer c.atEnd(func() { _ = c.Conn.Close() })() // Close reports it
	_ = c.CloseWrite()                             // the client sees the end of the answer; an error means that it is gone
	n, err := io.Copy(io.Discard, io.LimitReader(rest{c}, lingerBytes))
	c.of.leave(c, n == lingerBytes || errors.Is(err, os.ErrDeadlineExceeded))
}

// rest reads what still comes on a connection, within the bounds of time.
type rest struct{ *lingeringConn }

func (r rest) Read(p []byte) (int, error) {
	if err := r.SetReadDeadline(r.of.deadline(r.lingeringConn)); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// NetConn returns the connection below.
func (c *lingeringConn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what the client is sent and leaves what it sends open. It is an
// error where the connection below cannot do that.
func (c *lingeringConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
