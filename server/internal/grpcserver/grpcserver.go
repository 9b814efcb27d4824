// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package grpcserver serves gRPC to clients, with bounds of their requests and connections, and
// the services of health and reflection. All fronts of gRPC share it.
package grpcserver

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Bounds of one client.
const (
	// maxMessage is the most bytes of a request. A proxy may repeat header fields of its client in
	// many places of a request, and lets a client pass whose request is refused.
	maxMessage = 1 << 20

	maxHeader    = 16 << 10         // bytes of a request's metadata
	maxStreams   = 1000             // requests at once on a connection
	window       = 1 << 20          // bytes of requests that a connection has sent and nobody has read; fixed, as a window that grows needs pings
	leastPing    = 10 * time.Second // between two pings
	idleTimeout  = 5 * time.Minute  // of a connection without requests, and until the first
	beginTimeout = 10 * time.Second // for the first bytes of a connection

	messageTimeout = 10 * time.Second // for the message of a unary request, from its header to its end
)

// workers is the number of goroutines that serve one request after the other. Further requests at
// once have goroutines of their own, whose stacks grow meanwhile: a fifth of a request's CPU time.
const workers = 64

// HTTP serves the connections of a listener that do not begin with HTTP/2.
type HTTP interface {
	Serve(l net.Listener) error
	InFlight() int
	Shutdown(ctx context.Context) error
	Close() error
}

// Server serves the clients of one listener. It is safe for concurrent use.
type Server struct {
	server   *grpc.Server
	health   *health.Server
	http     HTTP
	inFlight atomic.Int64
	shut     chan struct{} // closed when the Server is shut down or closed
	shutting sync.Once
}

// New returns a Server of the services that register adds.
func New(http HTTP, register func(grpc.ServiceRegistrar)) *Server {
	s := &Server{health: health.NewServer(), http: http, shut: make(chan struct{})}
	s.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(beginTimeout),
		grpc.MaxHeaderListSize(maxHeader), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}), grpc.StreamInterceptor(s.stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
		grpc.StaticConnWindowSize(window), grpc.UnaryInterceptor(s.count), grpc.NumStreamWorkers(workers),
	)
	services := registrar{s.server}
	register(services)
	healthpb.RegisterHealthServer(services, s.health)
	reflection.Register(s.server)
	return s
}

// count counts the requests in progress.
func (s *Server) count(ctx context.Context, q any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	return handle(ctx, q)
}

// stream serves a stream of health or reflection, which its client may keep open for long, until
// the Server is shut down.
func (s *Server) stream(service any, of grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if _, err := transportOf(of.Context()); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- handle(service, of) }()
	select {
	case err := <-ended:
		return err
	case <-s.shut:
		return status.Error(codes.Unavailable, "the server is shutting down")
	}
}

// endStreams says that no service is healthy any more, and ends the streams.
func (s *Server) endStreams() {
	s.health.Shutdown()
	s.shutting.Do(func() { close(s.shut) })
}

// Serves says that the service of health calls services healthy, until Shutdown.
func (s *Server) Serves(services ...string) {
	for _, service := range append(services, "") {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
}

// Listen returns l.
func (s *Server) Listen(l net.Listener) net.Listener { return l }

// Serve serves the connections of l until the Server is shut down or closed, and closes l.
func (s *Server) Serve(l net.Listener) error {
	parts := newSplit(l)
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(parts.rest()) }()
	var err error
	for _, e := range []error{s.server.Serve(parts), parts.Close(), <-failed} {
		if !errors.Is(e, net.ErrClosed) && !errors.Is(e, grpc.ErrServerStopped) { // either server closes parts
			err = errors.Join(err, e)
		}
	}
	return err
}

// InFlight returns the number of requests in progress.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) + s.http.InFlight() }

// Shutdown accepts no more connections, and waits until all requests have ended or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endStreams()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.server.GracefulStop()
	}()
	err := s.http.Shutdown(ctx)
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Close ends the requests in progress and closes all connections.
func (s *Server) Close() error {
	s.endStreams()
	s.server.Stop()
	return s.http.Close()
}
