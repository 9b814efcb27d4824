// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// pingAfter is how long nothing may come from an upstream over HTTP/2 before it
	// is asked whether it is there. A server of gRPC ends a connection, with all its
	// streams, on which it is asked more often than once in five minutes.
	pingAfter = 5*time.Minute + 10*time.Second
	// pingTimeout is how long it has to say so.
	pingTimeout = 15 * time.Second

	// maxFrame is the largest frame of HTTP/2, in bytes, for which a connection keeps
	// a buffer.
	maxFrame = 16 << 10
	// maxUntaken is how much of a response over HTTP/2 is kept, in bytes, that its
	// client does not take. One download gets as many in each round trip. Those on one
	// connection are not bounded together: a client that reads nothing would hold up the others.
	maxUntaken = 256 << 10

	// maxHeader is how large the header of a response may be, in bytes.
	maxHeader = 256 << 10
	// maxIdle is how many connections are kept that are not in use, and idleTimeout
	// how long.
	maxIdle     = 1024
	idleTimeout = 90 * time.Second

	// flushInterval is how long a part of a response of known length may wait for
	// more of it. Others, and server-sent events, go on at once by ReverseProxy's
	// own rule.
	flushInterval = time.Millisecond
)

// newTransport returns the connections to the upstream, which speak HTTP/2 without
// TLS if h2c is set. They do not heed the proxy settings of the environment: an
// upstream is named, not looked for.
func newTransport(o Options, h2c bool) *http.Transport {
	var protocols *http.Protocols
	if h2c {
		protocols = new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Transport{
		Protocols:         protocols,
		ForceAttemptHTTP2: true,
		// One connection carries the requests of many: they must not all wait on one
		// whose other end has gone without a word.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			MaxReadFrameSize: maxFrame, MaxReceiveBufferPerStream: maxUntaken,
		},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
			defer cancel()
			conn, err := o.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &upstreamConn{Conn: conn, timeout: o.StallTimeout}, nil
		},
		TLSHandshakeTimeout:    o.DialTimeout,
		ResponseHeaderTimeout:  o.ResponseTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle, // there is one host
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // what the upstream encoded stays as it is
	}
}

// buffers are the buffers in which bodies pass.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

func (b *buffers) Get() []byte {
	buf, ok := b.pool.Get().(*[32 << 10]byte)
	if !ok {
		buf = new([32 << 10]byte)
	}
	return buf[:]
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }
