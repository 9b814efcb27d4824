// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/server/internal/front"
)

// limitsOf returns the middleware that decides the requests of a listener.
func (rs *routes) limitsOf(p *Proxy, s *front.Snapshot) (m *httplimit.Middleware, err error) {
	of := limited{s.Policy, fmt.Sprint(s.Listener.Allow, s.Listener.Deny)}
	if m := rs.limits[of]; m != nil {
		return m, nil
	}
	c := s.Config
	fields, err := httplimit.ParseFields(c.Fields...)
	if err != nil {
		return nil, err
	}
	to := &recorder{front.Recorder{Front: name, Sinks: s.Sinks}, rs}
	m, err = httplimit.New(httplimit.Options{
		Policy: s.Policy, Overrides: s.Overrides, Store: s.Store,
		Trusted: c.ClientIP.Trusted, ClientHeader: c.ClientIP.Header, ClientHops: int(c.ClientIP.Hops),
		Claims: s.Claims, TokenRequired: c.Tokens != nil && c.Tokens.Required,
		Allow: s.Listener.Allow, Deny: s.Listener.Deny, Fields: fields,
		Queue: s.Queue, ReadAhead: p.ReadAhead, OwnLimits: p.o.OwnLimits, Now: s.Now,
		OnError:    func(r *http.Request, err error) { s.OnError(r.Context(), err) },
		OnDecision: to.decided, OnEnd: to.ended,
	})
	if err == nil {
		rs.limits[of] = m
	}
	return m, err
}

// recorder records requests.
type recorder struct {
	front.Recorder
	routes *routes
}

func (to *recorder) decided(r *http.Request, e httplimit.Event) {
	to.Record(r.Context(), func(rec *front.Record) {
		rec.FromHTTP(r)
		rec.Event, rec.Request, rec.Status = e.Event, e.Request, e.Status
	})
}

func (to *recorder) ended(r *http.Request, s *httplimit.Summary) {
	to.Record(r.Context(), func(rec *front.Record) {
		FillEnded(rec, r, s)
		rec.Route = to.routes.routeOf(r, s.Upstream)
	})
}

// FillEnded sets what a summary says of a request that has ended.
func FillEnded(rec *front.Record, r *http.Request, s *httplimit.Summary) {
	rec.FromHTTP(r)
	rec.Event, rec.Request = s.Event.Event, s.Event.Request
	rec.Ended, rec.Own, rec.Broken, rec.Status = true, s.Own, s.Broken, s.Status
	rec.At, rec.Took, rec.In, rec.Out = s.Began, s.Took, s.Read, s.Written
	if s.Upstream.URL != "" {
		rec.Upstream = s.Upstream
	}
}
