// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/server/internal/front"
)

// fieldWords maps config.FieldWords to fields.
var fieldWords = map[string]httplimit.Fields{
	"draft-11": httplimit.Draft11, "x-ratelimit": httplimit.XRateLimit,
	"x-ratelimit-epoch": httplimit.XRateLimitEpoch, "none": httplimit.NoFields,
}

// limitsOf returns the middleware that decides the requests of a listener.
func (rs *routes) limitsOf(p *Proxy, s *front.Snapshot) (m *httplimit.Middleware, err error) {
	of := limited{s.Policy, fmt.Sprint(s.Listener.Allow, s.Listener.Deny)}
	if m := rs.limits[of]; m != nil {
		return m, nil
	}
	c := s.Config
	var fields httplimit.Fields
	for _, word := range c.Fields {
		fields |= fieldWords[word]
	}
	to := &recorder{sinks: s.Sinks, routes: rs}
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
	sinks   front.Sinks
	routes  *routes
	records sync.Pool // of *front.Record
}

func (to *recorder) decided(r *http.Request, e httplimit.Event) {
	rec := to.record()
	fill(rec, r, &e)
	rec.Status = e.Status
	to.pass(r, rec)
}

func (to *recorder) ended(r *http.Request, s *httplimit.Summary) {
	rec := to.record()
	FillEnded(rec, r, s)
	rec.Route = to.routes.routeOf(r, s.Upstream)
	to.pass(r, rec)
}

// record returns an empty record.
func (to *recorder) record() *front.Record {
	if rec, ok := to.records.Get().(*front.Record); ok {
		return rec
	}
	return new(front.Record)
}

// pass passes a record to the sinks, and keeps its memory for another.
func (to *recorder) pass(r *http.Request, rec *front.Record) {
	to.sinks.Record(r.Context(), rec)
	*rec = front.Record{}
	to.records.Put(rec)
}

// fill sets the parts of a record that are known when a request is decided.
func fill(rec *front.Record, r *http.Request, e *httplimit.Event) {
	rec.Front, rec.Event, rec.Request = name, e.Event, e.Request
	rec.FromHTTP(r)
}

// FillEnded sets the parts of a record that are known when a request has ended, except its
// route.
func FillEnded(rec *front.Record, r *http.Request, s *httplimit.Summary) {
	fill(rec, r, &s.Event)
	rec.Ended, rec.Own, rec.Broken, rec.Status = true, s.Own, s.Broken, s.Status
	rec.At, rec.Took, rec.In, rec.Out = s.Began, s.Took, s.Read, s.Written
	if s.Upstream.URL != "" {
		rec.Upstream = s.Upstream
	}
}
