// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy is the front of HTTP: it passes the requests that the rules allow on to
// upstreams, or to a sample app, and answers all others.
package proxy

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front.
const name = "proxy"

// Options are the options of a [Proxy]. All are required.
type Options struct {
	Log       *slog.Logger
	Clients   *httpserver.Bounds
	Upstreams int64           // connections to upstreams at once
	OwnLimits *sluice.Limiter // of requests for a client's own limits
}

// Proxy holds what all listeners of this front share. It is safe for concurrent use, apart from
// the preparation of snapshots, which is for one goroutine at a time.
type Proxy struct {
	Abandoned *gateway.Abandoned
	ReadAhead *httplimit.ReadAhead
	Upstreams *gateway.Connections

	o       Options
	longest atomic.Int64 // requests cut off by longest_request
	current atomic.Pointer[routes]
	next    *routes // the last ones prepared
}

// New returns a Proxy without upstreams.
func New(o Options) *Proxy {
	p := &Proxy{Abandoned: gateway.NewAbandoned(gateway.DefaultAbandoned), ReadAhead: new(httplimit.ReadAhead), o: o}
	p.Upstreams = gateway.NewConnections(o.Upstreams, p.closeIdle)
	return p
}

// LongRequests returns the number of requests that longest_request has cut off.
func (p *Proxy) LongRequests() int64 { return p.longest.Load() }

// closeIdle closes the idle connections to upstreams.
func (p *Proxy) closeIdle() {
	if rs := p.current.Load(); rs != nil {
		for _, up := range rs.upstreams {
			up.Close()
		}
	}
}

// Kind returns the kind of this front.
func (p *Proxy) Kind() front.Kind {
	return front.Kind{
		Name: name, ALPN: []string{"h2", "http/1.1"},
		New: func(*config.Listener) (front.Front, error) { return newListener(p), nil },
	}
}

// listener serves the clients of one listener.
type listener struct {
	*httpserver.Server
	proxy   *Proxy
	handler atomic.Pointer[http.Handler] // limits around routes
}

func newListener(p *Proxy) *listener {
	l := &listener{proxy: p}
	l.Server = httpserver.New(l, p.o.Clients)
	return l
}

// ServeHTTP answers a request under the active snapshot.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.handler.Load()).ServeHTTP(w, r)
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	rs, err := l.proxy.routesOf(s.Config)
	if err != nil {
		return nil, err
	}
	limits, err := rs.limitsOf(l.proxy, s)
	if err != nil {
		return nil, err
	}
	handler := s.Trace(limits.Wrap(rs.handler))
	return func() {
		l.handler.Store(&handler)
		l.SetLeastBodyRate(cmp.Or(s.Listener.LeastBodyRate, s.Config.LeastBodyRate))
		l.proxy.activate(rs)
	}, nil
}
