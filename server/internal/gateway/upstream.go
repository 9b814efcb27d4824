// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

const (
	// pingAfter is how long an HTTP/2 connection to an upstream may be silent before it is
	// pinged. A gRPC server closes connections that are pinged more often than once in five
	// minutes.
	pingAfter = 5*time.Minute + 10*time.Second
	// pingTimeout bounds the reply to a ping.
	pingTimeout = 15 * time.Second

	// maxFrame is the largest HTTP/2 frame, in bytes; a connection keeps a buffer for one.
	maxFrame = 16 << 10
	// maxUntaken bounds the bytes of an HTTP/2 response that are kept while its client does
	// not take them. A download gets as many in each round trip. The responses on one
	// connection have no common bound: a client that reads nothing would hold up the others.
	maxUntaken = 256 << 10

	// dialTimeout bounds the dial of a connection, and then its TLS handshake.
	dialTimeout = 5 * time.Second

	// maxHeader bounds the header of a response, in bytes.
	maxHeader = 256 << 10
	// maxIdle is the most idle connections, and idleTimeout the longest time that one is kept.
	maxIdle     = 1024
	idleTimeout = 90 * time.Second

	// flushInterval is how long a part of a response of known length may wait for more of it.
	// ReverseProxy flushes other responses, and server-sent events, at once.
	flushInterval = time.Millisecond
)

// newTransport returns the connections to the upstream, over HTTP/2 without TLS if h2c is set.
// They ignore the proxy settings of the environment: the upstream is given.
func newTransport(o Options, h2c bool) *http.Transport {
	var protocols *http.Protocols
	if h2c {
		protocols = new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Transport{
		Protocols:         protocols,
		ForceAttemptHTTP2: true,
		// One connection carries many requests: they must not all wait for a peer that is gone
		// silently.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerStream: maxUntaken,
		},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			conn, err := o.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &upstreamConn{Conn: conn, timeout: o.StallTimeout}, nil
		},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  o.ResponseTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle, // there is one host
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // the upstream's encoding stays
	}
}

// buffers is a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

func (b *buffers) Get() []byte {
	return b.pool.Get().(*[32 << 10]byte)[:] //nolint:forcetypeassert // nothing else is ever put
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }

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
