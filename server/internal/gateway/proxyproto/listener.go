// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package proxyproto reads the header of the PROXY protocol, version 1 or 2, by which HAProxy,
// nginx and load balancers of layer 4 name the client at the start of a connection.
//
// Only the listed peers are trusted, and these must send a header. The bytes of any other peer
// are passed on unchanged, so that a forged header is only data, which the application
// refuses. A header that is malformed, late, or has a wrong checksum fails every read and
// write of its connection with a [*HeaderError]. One that names no client, such as UNKNOWN or
// a load balancer's LOCAL health check, leaves the connection its own addresses.
package proxyproto

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/wire"
)

// Options are the options of a [Listener]. Trusted is required.
type Options struct {
	// Trusted are the networks of the proxies that send a header.
	Trusted []netip.Prefix
	// OnError, if not nil, is called with each header that is refused or late, by the first
	// call that needs it: net/http's server does not report it. It is not called for a
	// connection that ends before its first byte, as port checks do. It must be safe for
	// concurrent use and quick.
	OnError func(*HeaderError)
}

// headerTimeout bounds the arrival of a header after its connection was accepted.
const headerTimeout = 5 * time.Second

// Listener is a [net.Listener] whose connections have the addresses stated by trusted proxies.
type Listener struct {
	net.Listener
	trusted clientip.Admission
	onError func(*HeaderError)
}

// Listen returns a Listener that accepts from l. Closing it closes l.
func Listen(l net.Listener, o Options) (*Listener, error) {
	if len(o.Trusted) == 0 {
		return nil, errors.New("proxyproto: Trusted is empty, so that no header would be read; list the networks of the proxies")
	}
	return &Listener{l, clientip.NewAdmission(o.Trusted, nil), o.OnError}, nil
}

// Accept returns the next connection: a [*Conn] if a trusted peer made it, otherwise the
// connection of the listener below. It does not wait for a header.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || !l.trusted.Admits(clientip.Peer(c.RemoteAddr().String())) {
		return c, err
	}
	return newConn(c, time.Now().Add(headerTimeout), l.onError), nil
}

// HeaderError is why a connection's header was refused.
type HeaderError struct {
	Peer net.Addr // the proxy
	Err  error
}

// Error names the proxy and the fault.
func (e *HeaderError) Error() string {
	return fmt.Sprintf("proxyproto: header from %v: %v", e.Peer, e.Err)
}

// Unwrap returns the fault.
func (e *HeaderError) Unwrap() error { return e.Err }

// Conn is a connection that begins with a header. The first call that needs the header reads
// it, and blocks until it is there or its time is up: Read, Write, RemoteAddr, LocalAddr or
// ReadHeader. All methods may be called concurrently, but only one goroutine at a time may
// read.
type Conn struct {
	net.Conn
	end     time.Time // for the header
	onError func(*HeaderError)

	once   sync.Once
	err    error
	source net.Addr // nil: the connection's own
	target net.Addr
	buf    *bufio.Reader // holds the bytes that came with the header; nil once read

	mu       sync.Mutex
	pending  bool // the header has not been read
	deadline time.Time
}

func newConn(c net.Conn, end time.Time, onError func(*HeaderError)) *Conn {
	return &Conn{Conn: c, end: end, onError: onError, buf: bufio.NewReaderSize(c, 512), pending: true}
}

// ReadHeader reads the header unless it has been read. It returns a [*HeaderError] if the
// header was refused.
func (c *Conn) ReadHeader() error {
	c.once.Do(func() {
		err := c.readHeader()
		if err == nil {
			return
		}
		refused := &HeaderError{Peer: c.Conn.RemoteAddr(), Err: err}
		c.err, c.buf = refused, nil
		if c.onError != nil && (!errors.Is(err, errNothing) || errors.Is(err, os.ErrDeadlineExceeded)) {
			c.onError(refused)
		}
	})
	return c.err
}

func (c *Conn) readHeader() error {
	c.mu.Lock()
	err := c.setReadDeadline()
	c.mu.Unlock()
	var h header
	if err == nil {
		h, err = readHeader(c.buf)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = false
	if err != nil {
		return err
	}
	// An error means that the peer is gone. Bytes sent before can still be read.
	_ = c.setReadDeadline()
	if h.source.IsValid() {
		c.source, c.target = net.TCPAddrFromAddrPort(h.source), net.TCPAddrFromAddrPort(h.target)
	}
	return nil
}

// setReadDeadline sets the caller's deadline, or the header's if that is earlier and the
// header is pending.
func (c *Conn) setReadDeadline() error {
	t := c.deadline
	if c.pending && (t.IsZero() || t.After(c.end)) {
		t = c.end
	}
	return c.Conn.SetReadDeadline(t)
}

// Read reads the bytes after the header.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.ReadHeader(); err != nil {
		return 0, err
	}
	if c.buf != nil {
		if c.buf.Buffered() > 0 {
			n, err := c.buf.Read(p)
			if c.buf.Buffered() == 0 {
				c.buf = nil
			}
			return n, err
		}
		c.buf = nil
	}
	return c.Conn.Read(p)
}

// Write writes to the client once the header has been read.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.ReadHeader(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ReadFrom lets the kernel copy if it can.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.ReadHeader(); err != nil {
		return 0, err
	}
	return io.Copy(c.Conn, r)
}

// RemoteAddr returns the client's address as the proxy states it, or the
// proxy's own if it states none or its header was refused.
func (c *Conn) RemoteAddr() net.Addr {
	if c.ReadHeader() != nil || c.source == nil {
		return c.Conn.RemoteAddr()
	}
	return c.source
}

// LocalAddr returns the address that the client connected to, or the connection's own in the
// same cases.
func (c *Conn) LocalAddr() net.Addr {
	if c.ReadHeader() != nil || c.target == nil {
		return c.Conn.LocalAddr()
	}
	return c.target
}

// NetConn returns the connection below, with its own addresses.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the side to the client and leaves the other open. It fails if the
// connection below cannot do that.
func (c *Conn) CloseWrite() error { return wire.CloseWrite(c.Conn) }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of reads. It never extends that of the header.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.setReadDeadline()
}
