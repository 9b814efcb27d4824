// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package rls is the front of Envoy's global rate limiting: the Rate Limit Service v3 over gRPC,
// and at the path /json. It decides as envoyproxy/ratelimit does, by the same files, which may have
// limits of other kinds and slots, too, and by rules of the configuration.
//
// The files, in the order in which to read them:
//
//   - rls.go: the front
//   - decide.go: a request
//   - limits.go: the counters and plans of descriptors
//   - take.go: the requests to the store
//   - slots.go: the slots of owners
//   - native.go: descriptors by rules of the configuration
//   - answer.go: the answer
//   - metadata.go: its dynamic metadata
//   - json.go: requests in JSON
//   - statistics.go: the statistics of the service
package rls

import (
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/grpcserver"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front.
const name = "rls"

// RLS holds what all listeners of this front share. It is safe for concurrent use.
type RLS struct {
	Statistics Statistics
}

// Kind returns the kind of this front.
func (r *RLS) Kind(clients *httpserver.Bounds) front.Kind {
	return front.Kind{
		Name: name, ALPN: []string{"h2", "http/1.1"},
		New: func(*config.Listener) (front.Front, error) {
			l := &listener{statistics: &r.Statistics}
			l.Server = grpcserver.New(httpserver.New(l, clients), func(to grpc.ServiceRegistrar) { pb.RegisterRateLimitServiceServer(to, l) })
			return l, nil
		},
	}
}

// listener serves the proxies of one listener.
type listener struct {
	pb.UnimplementedRateLimitServiceServer
	*grpcserver.Server
	statistics *Statistics
	current    atomic.Pointer[active]
}

// active decides under one configuration.
type active struct {
	*front.Snapshot
	limits     *limits
	rules      *rules              // nil: none
	admits     *clientip.Admission // nil: everybody
	records    front.Recorder
	statistics *Statistics
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	a := &active{Snapshot: s, records: front.Recorder{Front: name, Sinks: s.Sinks}, statistics: l.statistics}
	if a.limits, err = newLimits(&s.Listener.RLS); err != nil {
		l.statistics.add(loadError)
		return nil, err
	}
	if a.rules, err = newRules(s); err != nil {
		return nil, err
	}
	if len(s.Listener.Allow)+len(s.Listener.Deny) > 0 {
		admits := clientip.NewAdmission(s.Listener.Allow, s.Listener.Deny)
		a.admits = &admits
	}
	return func() {
		l.current.Store(a)
		l.statistics.add(loadSuccess)
		l.Serves("ratelimit", pb.RateLimitService_ServiceDesc.ServiceName)
	}, nil
}
