// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// upstreamConn is a connection to an upstream. A write that makes no progress for timeout
// fails. One goroutine at a time writes to it.
type upstreamConn struct {
	net.Conn
	timeout time.Duration
}

// Write sends p.
func (c *upstreamConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// CloseWrite closes the side to the upstream and leaves the other open. It fails if the
// connection below cannot do that.
func (c *upstreamConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
