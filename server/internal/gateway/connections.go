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

// errFull is the error of a dial when all places are taken.
var errFull = errors.New("too many connections to upstreams are open")

// Connections bounds the connections to upstreams, from dial to close. Gateways and other
// dialers may share one. It is safe for concurrent use.
type Connections struct {
	most, open                 atomic.Int64
	full, noDescriptor, noPort atomic.Int64
	makeRoom                   func()
	making                     sync.Mutex // held while makeRoom runs
}

// ConnectionStats counts connections to upstreams.
type ConnectionStats struct {
	Open         int64 // open or being dialled
	Full         int64 // not dialled: too many were open
	NoDescriptor int64 // failed: the process or the system had no file descriptors left
	NoPort       int64 // failed: the system had no local ports left
}

// NewConnections returns Connections with most places, at least 1. If all are taken, makeRoom,
// if not nil, is called before a second attempt: it should close idle connections.
func NewConnections(most int64, makeRoom func()) *Connections {
	c := &Connections{makeRoom: makeRoom}
	c.Resize(most)
	return c
}

// Resize changes the number of places, at least 1. Open connections stay.
func (c *Connections) Resize(most int64) { c.most.Store(max(most, 1)) }

// Stats returns the counts.
func (c *Connections) Stats() ConnectionStats {
	return ConnectionStats{Open: c.open.Load(), Full: c.full.Load(), NoDescriptor: c.noDescriptor.Load(), NoPort: c.noPort.Load()}
}

// Dial connects to an address, as [net.Dialer] does. Without a free place it fails at once.
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

// enter takes a place, if one is free or can be freed.
func (c *Connections) enter() bool {
	if c.take() {
		return true
	}
	if c.makeRoom == nil {
		return false
	}
	c.making.Lock() // another caller may be freeing places: wait until it is done
	defer c.making.Unlock()
	if c.take() {
		return true
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

// count counts a failed connection by the resource that was lacking.
func (c *Connections) count(err error) {
	switch {
	case lacks(err, syscall.EMFILE), lacks(err, syscall.ENFILE):
		c.noDescriptor.Add(1)
	case lacks(err, syscall.EADDRNOTAVAIL):
		c.noPort.Add(1)
	}
}

// lacks reports whether a connection failed with the error number no, also during the lookup
// of its host, where package net keeps only the text.
func lacks(err error, no syscall.Errno) bool {
	lookup, ok := errors.AsType[*net.DNSError](err)
	return errors.Is(err, no) || ok && strings.Contains(lookup.Err, no.Error())
}

// placedConn is a connection that frees its place when it is closed.
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

// CloseWrite closes the side to the upstream and leaves the other open. It fails if the
// connection below cannot do that.
func (c *placedConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
