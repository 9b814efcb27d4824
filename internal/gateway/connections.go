// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluicegate/sluice/internal/wire"
)

// errFull is why nothing is dialled where all places are taken.
var errFull = errors.New("as many connections to upstreams are open as may be")

// Connections bound how many connections there are to upstreams, from the moment
// they are dialled until they are closed. Gateways, and whatever else dials, may
// share them. They are safe for concurrent use.
type Connections struct {
	most, open                 atomic.Int64
	full, noDescriptor, noPort atomic.Int64
	makeRoom                   func()
}

// ConnectionStats is how connections to upstreams fare.
type ConnectionStats struct {
	Open         int64 // now, with those that are being dialled
	Full         int64 // that were not dialled, as too many are open
	NoDescriptor int64 // that failed, as this process or its system had no file descriptors left
	NoPort       int64 // that failed, as the system had no local ports left
}

// NewConnections returns so many Connections, at least 1. MakeRoom is called where
// all are taken, and then it is tried once more: it should close those that are
// idle. Nil does nothing.
func NewConnections(most int64, makeRoom func()) *Connections {
	c := &Connections{makeRoom: makeRoom}
	c.Resize(most)
	return c
}

// Resize makes it so many, at least 1. Connections that are open stay.
func (c *Connections) Resize(most int64) { c.most.Store(max(most, 1)) }

// Stats returns how they fare.
func (c *Connections) Stats() ConnectionStats {
	return ConnectionStats{Open: c.open.Load(), Full: c.full.Load(), NoDescriptor: c.noDescriptor.Load(), NoPort: c.noPort.Load()}
}

// Dial connects to an address, as [net.Dialer] does. Where there is no place it
// fails at once.
func (c *Connections) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !c.enter() {
		c.full.Add(1)
		return nil, &net.OpError{Op: "dial", Net: network, Err: errFull}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		c.open.Add(-1)
		c.count(err)
		return nil, err
	}
	return &placedConn{Conn: conn, of: c}, nil
}

// enter takes a place, if there is one.
func (c *Connections) enter() bool {
	if c.take() {
		return true
	}
	if c.makeRoom == nil {
		return false
	}
	c.makeRoom()
	return c.take()
}

func (c *Connections) take() bool {
	if c.open.Add(1) > c.most.Load() {
		c.open.Add(-1)
		return false
	}
	return true
}

// count counts a connection that could not be made for want of something here.
func (c *Connections) count(err error) {
	switch {
	case lacks(err, syscall.EMFILE), lacks(err, syscall.ENFILE):
		c.noDescriptor.Add(1)
	case lacks(err, syscall.EADDRNOTAVAIL):
		c.noPort.Add(1)
	}
}

// lacks reports whether a connection failed for what no says, also while its host
// was looked up: of that package net keeps the text alone.
func lacks(err error, no syscall.Errno) bool {
	lookup, ok := errors.AsType[*net.DNSError](err)
	return errors.Is(err, no) || ok && strings.Contains(lookup.Err, no.Error())
}

// placedConn is a connection that gives its place back when it is closed.
type placedConn struct {
	net.Conn
	once sync.Once
	of   *Connections
}

// Close closes the connection.
func (c *placedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.of.open.Add(-1) })
	return err
}

// NetConn returns the connection below.
func (c *placedConn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what the upstream is sent and leaves what it sends open. It is
// an error where the connection below cannot do that.
func (c *placedConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
