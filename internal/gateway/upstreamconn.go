// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// upstreamConn is a connection to an upstream, which must go on reading: one that stands
// still for longer than timeout while it is written to fails. One goroutine at a time
// writes to it.
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

// CloseWrite ends what the upstream is sent and leaves what it sends open. It is
// an error where the connection below cannot do that.
func (c *upstreamConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
