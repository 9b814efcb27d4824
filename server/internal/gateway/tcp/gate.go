// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/wire"
)

// Places bounds the connections of several servers together. Connections above the bound are
// reset. It is safe for concurrent use.
type Places struct{ most, taken atomic.Int64 }

// NewPlaces returns most Places, at least 1.
func NewPlaces(most int) *Places {
	p := &Places{}
	p.Resize(most)
	return p
}

// Resize changes the number of places, at least 1. Existing connections stay.
func (p *Places) Resize(most int) { p.most.Store(int64(max(most, 1))) }

// Most returns the number of places.
func (p *Places) Most() int { return int(p.most.Load()) }

// Taken returns the number of taken places.
func (p *Places) Taken() int { return int(p.taken.Load()) }

// take takes a place, which giveBack frees, and reports whether there was one. Nil Places
// always have one.
func (p *Places) take() bool {
	if p != nil && p.taken.Add(1) > p.most.Load() {
		p.taken.Add(-1)
		return false
	}
	return true
}

func (p *Places) giveBack() {
	if p != nil {
		p.taken.Add(-1)
	}
}

// errFull returns the error logged for a connection without a place.
func (p *Places) errFull() error {
	return fmt.Errorf("max_connections (%d) is reached; raise it, or set open of the listener, for each client network", p.Most())
}

// Gate is a [net.Listener] of the connections of another one that its limits admit, for
// servers of other protocols, such as an [http.Server]. A connection counts until it is
// closed. TLS belongs around the Gate. It is safe for concurrent use.
type Gate struct {
	server *Server
	from   net.Listener
	begin  sync.Once
	let    chan net.Conn
	failed chan struct{} // closed when no more connections come
	err    error         // the reason
}

// NewGate returns a Gate. It has no limit on bytes.
func NewGate(from net.Listener, o Options) (*Gate, error) {
	g := &Gate{from: from, let: make(chan net.Conn), failed: make(chan struct{})}
	o.gate = g
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	g.server = s
	return g, nil
}

// Accept blocks until a connection is admitted, or the Gate is closed.
func (g *Gate) Accept() (net.Conn, error) {
	g.begin.Do(func() {
		go func() {
			g.err = g.server.Serve(g.from)
			close(g.failed)
		}()
	})
	select {
	case c := <-g.let:
		return c, nil
	case <-g.failed:
	}
	if errors.Is(g.err, ErrServerClosed) {
		return nil, net.ErrClosed
	}
	return nil, g.err
}

// Close closes the listener. Admitted connections stay.
func (g *Gate) Close() error {
	g.begin.Do(func() { // no connection was accepted
		g.err = ErrServerClosed
		close(g.failed)
	})
	return errors.Join(g.server.stop(), ignoreClosed(g.from.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Addr returns the listener's address.
func (g *Gate) Addr() net.Addr { return g.from.Addr() }

// Prepare returns a function that replaces the limits: see [Server.Prepare].
func (g *Gate) Prepare(l Limits) (use func(), err error) { return g.server.Prepare("", l) }

// Stats returns the counts, without bytes.
func (g *Gate) Stats() Stats { return g.server.Stats() }

// hand passes an admitted connection to Accept, and blocks until it is closed.
func (g *Gate) hand(ctx context.Context, c net.Conn) {
	in := &letIn{Conn: c, closed: make(chan struct{})}
	select {
	case g.let <- in:
	case <-g.server.closed:
		return
	case <-ctx.Done():
		return
	}
	<-in.closed
}

// letIn is an admitted connection. Its Close closes the channel closed.
type letIn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close closes the connection.
func (c *letIn) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// NetConn returns the connection below.
func (c *letIn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the side to the client and leaves the other open. It fails if the
// connection below cannot do that.
func (c *letIn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
