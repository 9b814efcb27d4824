// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// upstreamConn is a connection to an upstream, which must go on reading. One goroutine
// at a time writes to it, and one reads, as of that of any transport.
type upstreamConn struct {
	net.Conn
	bytes   net.Conn // that reads and writes
	timeout time.Duration
	last    exchange.Deadline
	answer  *answerBound                // nil: the transport has one of its own
	body    atomic.Pointer[partialBody] // read from the connection now, or lately
}

// newUpstreamConn returns a connection that may stand still for as long as stall while it
// is written to, and is waited for as long as answer for each response; 0 is no bound.
func newUpstreamConn(c net.Conn, stall, answer time.Duration) *upstreamConn {
	u := &upstreamConn{Conn: c, bytes: wire.Through(c), timeout: stall}
	if answer > 0 {
		u.answer = newAnswerBound(u.bytes, answer)
	}
	return u
}

// netConner is a connection over another, such as a [crypto/tls.Conn].
type netConner interface{ NetConn() net.Conn }

// upstreamConnOf returns what a transport's connection is, or lies over; nil if that is
// another's.
func upstreamConnOf(c net.Conn) *upstreamConn {
	if u, ok := c.(*upstreamConn); ok {
		return u
	}
	if over, ok := c.(netConner); ok {
		u, _ := over.NetConn().(*upstreamConn)
		return u
	}
	return nil
}

// Read reads what has come.
func (c *upstreamConn) Read(p []byte) (int, error) {
	if b := c.body.Load(); b != nil {
		b.wait()
	}
	n, err := c.bytes.Read(p)
	if c.answer != nil {
		return c.answer.read(p, n, err)
	}
	return n, err
}

// Write sends p.
func (c *upstreamConn) Write(p []byte) (int, error) {
	if deadline, ok := c.last.Extend(c.timeout); ok {
		if err := c.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if c.answer != nil {
		return c.answer.write(c.bytes, p)
	}
	return c.bytes.Write(p)
}

// Close closes the connection.
func (c *upstreamConn) Close() error {
	if c.answer != nil {
		c.answer.timer.Stop()
	}
	return c.Conn.Close()
}

// CloseWrite ends what the upstream is sent and leaves what it sends open. It is
// an error where the connection below cannot do that.
func (c *upstreamConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
