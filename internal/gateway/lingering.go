// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// Bounds of one connection that lingers.
const (
	lingerSilence = 5 * time.Second  // from one byte of the client to the next
	lingerTime    = 30 * time.Second // in all
	lingerBytes   = 256 << 20
)

// Lingering reads on what clients send of requests over HTTP/1 that were answered before
// their end, and drops it: so clients that read an answer when all is sent get it. A system
// resets a connection that is closed with bytes unread, and the answer is lost. The time
// and the bytes are bounded, and the number of such connections; above that they are
// closed as without it. It is safe for concurrent use.
type Lingering struct{ most, open, client, bound, full atomic.Int64 }

// LingeringStats say how many connections linger, and how others ended since it was made.
type LingeringStats struct {
	Open   int64 // now
	Client int64 // by the client, who has the answer or has left
	Bound  int64 // by a bound of time or bytes
	Full   int64 // at once, as too many lingered
}

// NewLingering returns a Lingering of so many connections at once, at least 1.
func NewLingering(most int64) *Lingering {
	l := &Lingering{}
	l.Resize(most)
	return l
}

// Resize makes it so many, at least 1.
func (l *Lingering) Resize(most int64) { l.most.Store(max(most, 1)) }

// Stats returns the counts.
func (l *Lingering) Stats() LingeringStats {
	return LingeringStats{l.open.Load(), l.client.Load(), l.bound.Load(), l.full.Load()}
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
}

// Close closes the connection, the first time when it has lingered.
func (c *lingeringConn) Close() error {
	if c.unread.Swap(false) {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *lingeringConn) linger() {
	l := c.of
	defer l.open.Add(-1)
	if l.open.Add(1) > l.most.Load() {
		l.full.Add(1)
		return
	}
	defer c.atEnd(func() { _ = c.Conn.Close() })() // Close reports it
	_ = c.CloseWrite()                             // the client sees the end of the answer; an error means that it is gone
	n, err := io.Copy(io.Discard, io.LimitReader(&rest{c.Conn, time.Now().Add(lingerTime)}, lingerBytes))
	if n == lingerBytes || errors.Is(err, os.ErrDeadlineExceeded) {
		l.bound.Add(1)
	} else {
		l.client.Add(1)
	}
}

// rest reads what still comes on a connection, within the bounds of time.
type rest struct {
	net.Conn
	end time.Time
}

func (r *rest) Read(p []byte) (int, error) {
	deadline := time.Now().Add(lingerSilence)
	if r.end.Before(deadline) {
		deadline = r.end
	}
	if err := r.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// NetConn returns the connection below.
func (c *lingeringConn) NetConn() net.Conn { return c.Conn }

// Through is of [wire.Through].
func (c *lingeringConn) Through() net.Conn { return c.Conn }

// CloseWrite ends what the client is sent and leaves what it sends open. It is an
// error where the connection below cannot do that.
func (c *lingeringConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
