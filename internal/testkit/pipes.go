// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Pipes is a listener for connections in memory. In a bubble of testing/synctest time passes
// while all goroutines wait for them.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns Pipes without a connection.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements [net.Listener].
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. Connections stay open.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{} }

// named is the server's end, with the address of the client.
type named struct {
	net.Conn
	from netip.Addr
}

func (c named) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 4711))
}

// Connect returns the client's end of a connection from an address, or nil if the
// listener is closed.
func (p *Pipes) Connect(from string) net.Conn {
	client, server := net.Pipe()
	select {
	case p.conns <- named{server, netip.MustParseAddr(from)}:
		return client
	case <-p.closed:
		return nil
	}
}

// Dial connects from 192.0.2.1, as an [net/http.Transport] does.
func (p *Pipes) Dial(context.Context, string, string) (net.Conn, error) {
	if c := p.Connect("192.0.2.1"); c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}
