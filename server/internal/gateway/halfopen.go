// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// halfOpenTimeout is how long an upstream may be silent after a switch of protocol once its client
// has closed its side or left, which look alike. TCP listeners have the same bound.
const halfOpenTimeout = 10 * time.Minute

// halfOpen is the connection to an upstream after a switch of protocol. Each side may close its
// own direction.
type halfOpen struct {
	io.ReadWriteCloser
	silence atomic.Pointer[time.Timer] // closes the connection; nil until the client has closed its side
}

// boundHalfOpen bounds the time of a connection that a response has switched.
func boundHalfOpen(resp *http.Response) {
	if c, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &halfOpen{ReadWriteCloser: c}
	}
}

// Read reads from the upstream.
func (c *halfOpen) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if silence := c.silence.Load(); silence != nil && err == nil {
		silence.Reset(halfOpenTimeout)
	}
	return n, err
}

// CloseWrite closes the side to the upstream and leaves the other open. It fails if the
// connection below cannot do that.
func (c *halfOpen) CloseWrite() error {
	err := wire.CloseWrite(c.ReadWriteCloser)
	if err == nil {
		c.silence.Store(time.AfterFunc(halfOpenTimeout, func() { _ = c.ReadWriteCloser.Close() })) // its reader gets an error
	}
	return err
}

// Close closes the connection.
func (c *halfOpen) Close() error {
	if silence := c.silence.Load(); silence != nil {
		silence.Stop()
	}
	return c.ReadWriteCloser.Close()
}
