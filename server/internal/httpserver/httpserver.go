// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httpserver serves HTTP to clients, with bounds of their time, memory and connections.
// All fronts of HTTP share it.
package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// Bounds of one client, except for a body that takes longer at a sufficient rate.
const (
	HeaderTimeout = 10 * time.Second // for the header of a request
	IdleTimeout   = 2 * time.Minute  // between two requests on a connection
	StallTimeout  = time.Minute      // for a body without progress
	MaxHeader     = 64 << 10         // bytes

	leastBodyRate = 240         // bytes a second of a body, the default
	endTimeout    = time.Second // for handlers whose contexts have ended
	maxFrame      = 16 << 10    // bytes, of HTTP/2: a connection keeps a buffer for its largest frame
	maxUnread     = 256 << 10   // bytes of bodies on an HTTP/2 connection, less under GOMEMLIMIT; one upload gets as many in each round trip
)

// Bounds are the bounds of all clients together. Log is required.
type Bounds struct {
	Log       *slog.Logger
	Memory    *gateway.Memory // nil: no bound
	Lingering *gateway.Lingering
	NoMemory  func() // called for each request answered with 503 for lack of memory; may be nil

	slow atomic.Int64
}

// SlowBodies returns the number of bodies that were cut off for their rate.
func (b *Bounds) SlowBodies() int64 { return b.slow.Load() }

// Server serves the clients of one listener. It is safe for concurrent use.
type Server struct {
	server   http.Server
	bounds   *Bounds
	inflight inflight
	cancel   context.CancelCauseFunc // of the requests' contexts
	rate     atomic.Int64            // bytes a second, the least of a body
}

// New returns a Server that passes requests to a handler.
func New(handler http.Handler, b *Bounds) *Server {
	s := &Server{bounds: b}
	s.SetLeastBodyRate(0)
	var own context.Context
	own, s.cancel = context.WithCancelCause(context.Background())
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // for clients that expect it, such as gRPC's
	bounded := gateway.WithLeastRate(handler, StallTimeout, s.rate.Load, func() { b.slow.Add(1) })
	refused := b.NoMemory
	if refused == nil {
		refused = func() {}
	}
	unread := b.Memory.Unread(maxUnread)
	s.server = http.Server{
		Handler: s.inflight.wrap(b.Memory.Wrap(bounded, refused)), ErrorLog: ErrorLog(b.Log), Protocols: &protocols,
		ConnContext: b.Lingering.ConnContext,
		ConnState: func(c net.Conn, state http.ConnState) {
			b.Memory.ConnState(c, state)
			b.Lingering.ConnState(c, state)
		},
		HTTP2:             &http.HTTP2Config{MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: unread, MaxReceiveBufferPerStream: unread, WriteByteTimeout: StallTimeout},
		ReadHeaderTimeout: HeaderTimeout, IdleTimeout: IdleTimeout, MaxHeaderBytes: MaxHeader,
		BaseContext: func(net.Listener) context.Context { return own },
	}
	return s
}

// SetLeastBodyRate sets the least rate of a body in bytes a second. Zero means 240; a negative
// rate is no bound.
func (s *Server) SetLeastBodyRate(n int64) {
	if n == 0 {
		n = leastBodyRate
	}
	s.rate.Store(max(n, 0))
}

// Listen returns a listener that bounds the memory of the connections of l, and reads the rest
// of requests that are answered early. It belongs below TLS.
func (s *Server) Listen(l net.Listener) net.Listener {
	return s.bounds.Memory.Listen(s.bounds.Lingering.Listen(l))
}

// Serve serves the connections of l until the Server is shut down or closed, and closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler returns the handler of all requests.
func (s *Server) Handler() http.Handler { return s.server.Handler }

// InFlight returns the number of requests in progress, with those on connections that have
// switched protocol.
func (s *Server) InFlight() int { return int(s.inflight.n.Load()) }

// Shutdown accepts no more connections and waits until all requests have ended or ctx ends. It
// does not wait for connections that have switched protocol.
func (s *Server) Shutdown(ctx context.Context) error { return s.server.Shutdown(ctx) }

// Close cancels the contexts of the requests in progress, waits a second at most for their last
// answers, and closes all connections.
func (s *Server) Close() error {
	s.cancel(http.ErrServerClosed)
	ctx, stop := context.WithTimeout(context.Background(), endTimeout)
	defer stop()
	s.inflight.wait(ctx)
	// The last answers may not have been sent yet.
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, s.server.Close())
}
