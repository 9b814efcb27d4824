// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package check is the front of proxies that ask by a sub-request whether a request may pass:
// auth_request of nginx, forward_auth of Caddy, ForwardAuth of Traefik, and ext_authz of
// Envoy, over HTTP or gRPC. A request that may pass is answered with 200 and the header fields
// of its limits, any other as the gateway answers it.
package check

import (
	"cmp"
	"iter"
	"net/http"
	"sync/atomic"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front.
const name = "check"

// Check counts what its listeners do not decide. The zero Check is ready to use, concurrently.
type Check struct {
	untrusted, undescribed atomic.Int64
}

// Refused returns the numbers of sub-requests that were not decided, by reason.
func (c *Check) Refused() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		_ = yield("peer", c.untrusted.Load()) && yield("description", c.undescribed.Load())
	}
}

// Kind returns the kind of this front.
func (c *Check) Kind(clients *httpserver.Bounds) front.Kind {
	return front.Kind{
		Name: name, ALPN: []string{"h2", "http/1.1"},
		New: func(*config.Listener) (front.Front, error) {
			l := &listener{check: c}
			l.Server = httpserver.New(l, clients)
			l.log = &sampledlog.Log{Logger: clients.Log, Part: name}
			return l, nil
		},
	}
}

// listener serves the proxies of one listener.
type listener struct {
	*httpserver.Server
	check   *Check
	log     *sampledlog.Log
	current atomic.Pointer[checks]
}

// checks decide under one snapshot.
type checks struct {
	limits   *httplimit.Middleware
	original string           // which fields hold the original request
	proxies  *clientip.Finder // that may send them
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	c := &checks{original: s.Listener.Original}
	if c.proxies, err = clientip.New(clientip.Options{Trusted: s.Config.ClientIP.Forwarding()}); err != nil {
		return nil, err
	}
	if c.limits, err = newLimits(s, name); err != nil {
		return nil, err
	}
	return func() {
		l.current.Store(c)
		l.SetLeastBodyRate(cmp.Or(s.Listener.LeastBodyRate, s.Config.LeastBodyRate))
	}, nil
}

// newLimits returns the middleware that decides for a kind of front.
func newLimits(s *front.Snapshot, kind string) (*httplimit.Middleware, error) {
	fields, err := httplimit.ParseFields(s.Config.Fields...)
	if err != nil {
		return nil, err
	}
	to := &front.Recorder{Front: kind, Sinks: s.Sinks}
	ip := &s.Config.ClientIP
	o := httplimit.Options{
		Policy: s.Policy, Overrides: s.Overrides, Store: s.Store,
		Trusted: ip.Trusted, ClientHeader: ip.Header, ClientHops: int(ip.Hops),
		Claims: s.Claims, TokenRequired: s.Config.Tokens != nil && s.Config.Tokens.Required,
		Allow: s.Listener.Allow, Deny: s.Listener.Deny, Fields: fields, Queue: s.Queue, Now: s.Now,
		OnError: func(r *http.Request, err error) { s.OnError(r.Context(), err) },
		OnDecision: func(r *http.Request, e httplimit.Event) {
			to.Record(r.Context(), func(rec *front.Record) {
				rec.FromHTTP(r)
				rec.Event, rec.Request, rec.Status = e.Event, e.Request, e.Status
			})
		},
		OnEnd: func(r *http.Request, sum *httplimit.Summary) {
			to.Record(r.Context(), func(rec *front.Record) {
				rec.FromHTTP(r)
				rec.Event, rec.Request, rec.Route = sum.Event.Event, sum.Event.Request, kind
				rec.Ended, rec.Status, rec.At, rec.Took, rec.In, rec.Out = true, sum.Status, sum.Began, sum.Took, -1, sum.Written
			})
		},
	}
	if status := int(s.Listener.DeniedStatus); status != 0 {
		o.Refuse = func(w http.ResponseWriter, r *http.Request, e httplimit.Event) {
			if e.Verdict == evaluate.Denied {
				e.Status = status
			}
			httplimit.WriteProblem(w, r, e)
		}
	}
	return httplimit.New(o)
}

// ServeHTTP decides the request that a proxy asks about.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := l.current.Load()
	original, fault := c.originalOf(r)
	if fault != nil {
		if fault.status == http.StatusForbidden {
			l.check.untrusted.Add(1)
		} else {
			l.check.undescribed.Add(1)
		}
		l.log.Warn(r.Context(), "request not checked", fault)
		fault.write(w)
		return
	}
	q := c.limits.Decide(original)
	if !q.Allowed() {
		q.Refuse(w)
		return
	}
	q.SetFields(w.Header())
	w.WriteHeader(http.StatusOK)
	q.Settle(policy.Response{Status: http.StatusOK}) //nolint:contextcheck // the request has it
}
