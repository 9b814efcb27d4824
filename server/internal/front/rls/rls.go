// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package rls is the front of Envoy's global rate limiting: the Rate Limit Service v3 over gRPC,
// and at the path /json. It decides as envoyproxy/ratelimit does, by the same files.
//
// The files, in the order in which to read them:
//
//   - rls.go: the front
//   - decide.go: a request
//   - limits.go: the counters of descriptors
//   - answer.go: the answer
//   - metadata.go: its dynamic metadata
//   - json.go: requests in JSON
//   - split.go: gRPC and HTTP/1.1 at one address
package rls

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front.
const name = "rls"

// Bounds of one client.
const (
	maxMessage  = 256 << 10        // bytes of a request
	maxStreams  = 1000             // requests at once on a connection
	leastPing   = 10 * time.Second // between two pings
	idleTimeout = 5 * time.Minute  // of a connection without requests, and until the first
)

// Kind returns the kind of this front.
func Kind(clients *httpserver.Bounds) front.Kind {
	return front.Kind{
		Name: name, ALPN: []string{"h2", "http/1.1"},
		New: func(*config.Listener) (front.Front, error) {
			l := &listener{health: health.NewServer()}
			l.http = httpserver.New(l, clients)
			l.grpc = grpc.NewServer(
				grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(httpserver.HeaderTimeout),
				grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
				grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
			)
			pb.RegisterRateLimitServiceServer(l.grpc, l)
			healthpb.RegisterHealthServer(l.grpc, l.health)
			reflection.Register(l.grpc)
			return l, nil
		},
	}
}

// listener serves the proxies of one listener.
type listener struct {
	pb.UnimplementedRateLimitServiceServer
	grpc     *grpc.Server
	health   *health.Server
	http     *httpserver.Server // of requests in JSON
	inFlight atomic.Int64
	current  atomic.Pointer[active]
}

// active decides under one configuration.
type active struct {
	*front.Snapshot
	limits  *limits
	admits  *clientip.Admission // nil: everybody
	records front.Recorder
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	a := &active{Snapshot: s, records: front.Recorder{Front: name, Sinks: s.Sinks}}
	if a.limits, err = newLimits(&s.Listener.RLS); err != nil {
		return nil, err
	}
	if len(s.Listener.Allow)+len(s.Listener.Deny) > 0 {
		admits := clientip.NewAdmission(s.Listener.Allow, s.Listener.Deny)
		a.admits = &admits
	}
	return func() {
		l.current.Store(a)
		for _, service := range []string{"", "ratelimit", pb.RateLimitService_ServiceDesc.ServiceName} {
			l.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
		}
	}, nil
}

// Listen implements [front.Front].
func (l *listener) Listen(of net.Listener) net.Listener { return of }

// Serve implements [front.Front].
func (l *listener) Serve(of net.Listener) error {
	s := newSplit(of)
	failed := make(chan error, 1)
	go func() { failed <- l.http.Serve(s.rest()) }()
	err := l.grpc.Serve(s)
	for _, e := range []error{s.Close(), <-failed} {
		if !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return err
}

// InFlight implements [front.Front].
func (l *listener) InFlight() int { return int(l.inFlight.Load()) + l.http.InFlight() }

// Shutdown implements [front.Front].
func (l *listener) Shutdown(ctx context.Context) error {
	l.health.Shutdown()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.grpc.GracefulStop()
	}()
	err := l.http.Shutdown(ctx)
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Close implements [front.Front].
func (l *listener) Close() error {
	l.health.Shutdown()
	l.grpc.Stop()
	return l.http.Close()
}
