// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/metrics"
	"github.com/sluicegate/sluice/server/internal/tally"
	"github.com/sluicegate/sluice/server/internal/token"
)

// newLimits returns the middleware that decides requests under a configuration.
func (s *runtime) newLimits(g *snapshot) (*httplimit.Middleware, error) {
	c := g.config
	var fields httplimit.Fields
	for _, word := range c.Fields {
		fields |= fieldWords[word]
	}
	var err error
	if g.decisions, err = s.logs.encoder(c); err != nil {
		return nil, err
	}
	logged := s.logs.onEnd(c, g.decisions)
	return httplimit.New(httplimit.Options{
		Policy: g.config.Policy, Overrides: s.overrides.Active(), Store: s.store,
		Trusted: c.ClientIP.Trusted, ClientHeader: c.ClientIP.Header, ClientHops: int(c.ClientIP.Hops), Claims: g.claims, TokenRequired: c.Tokens != nil && c.Tokens.Required,
		Allow: c.Allow, Deny: c.Deny, Fields: fields,
		Queue: s.held, ReadAhead: s.ahead, OwnLimits: s.askers, OnError: s.report, Now: s.expiryNow,
		OnDecision: func(r *http.Request, e httplimit.Event) {
			g.proxies.look(r)
			if s.trace != nil { // avoids a copy of e
				s.trace.Decided(r, e)
			}
			cause := tally.Cause{Status: e.Status}
			if e.Verdict == evaluate.Refused {
				cause.Text = token.Cause(e.Err)
			}
			s.tally.Count(&e.Event, cause)
			s.counts.Count(&e.Event)
		},
		OnEnd: func(r *http.Request, sum *httplimit.Summary) {
			if u := sum.Upstream; u.URL != "" && sum.Event.Verdict.Passes() {
				s.tally.End(u.Status, u.Err)
				if u.Err == nil {
					s.stated(sum.Event.Evaluated)
				}
			}
			s.counts.EndHTTP(r, sum)
			if logged != nil {
				logged(r, sum)
			}
		},
	})
}

// stated records whether a response stated its cost.
func (s *runtime) stated(v *evaluate.Verdict) {
	if v == nil {
		return
	}
	for _, r := range v.Stated {
		s.tally.Stated(r.Name, true, s.now())
	}
	for _, r := range v.Unstated {
		if s.tally.Stated(r.Name, false, s.now()) {
			s.log.Warn("a response has no usable header field of its cost: the estimate stays", slog.String("rule", r.Name), slog.String("header", r.Cost.Header))
		}
	}
}

// routeOf returns the route of a request in metrics, by its name in the configuration; "" for
// one that was passed on, whose route the metrics know. It
// works for requests that were not passed on, too.
func (s *runtime) routeOf(r *http.Request, sum *httplimit.Summary) string {
	if sum.Upstream.URL != "" || sum.Upstream.Route != "" {
		return "" // its name in the gateway
	}
	routes, ok := s.current.Load().routes.(*gateway.Routes)
	if !ok {
		return "/" // the sample app's
	}
	name, ok := routes.NameOf(r)
	if !ok {
		return "none"
	}
	return cmp.Or(name, "/")
}

// newAskers returns the limiter of requests for a client's own limits.
func newAskers(store sluice.Store) (*sluice.Limiter, error) {
	limit := sluice.PerMinute(30).WithBurst(10).WithName("own-limits")
	return sluice.New(store, "own-limits", limit)
}

// fieldWords maps the words of config.Config.Fields to fields.
var fieldWords = map[string]httplimit.Fields{
	"draft-11": httplimit.Draft11, "x-ratelimit": httplimit.XRateLimit,
	"x-ratelimit-epoch": httplimit.XRateLimitEpoch, "none": httplimit.NoFields,
}

// noMemory counts a request answered with 503 before any rule was evaluated.
func (s *runtime) noMemory() {
	e := evaluate.Event{Verdict: evaluate.FailedClosed}
	s.tally.Count(&e, tally.Cause{})
	s.counts.Count(&e)
}

// cutOff returns the numbers of bodies and requests cut off by bounds.
func (s *runtime) cutOff() metrics.CutOff {
	return metrics.CutOff{SlowBodies: s.slowBodies.Load(), LongRequests: s.longRequests.Load()}
}

// heldBack returns the numbers of delayed requests and their memory.
func (s *runtime) heldBack() metrics.Held {
	held := s.held.Stats()
	kept, stopped := s.ahead.Held()
	return metrics.Held{
		InFlight: held.InFlight,
		Requests: held.Held, Full: held.Full, ShareFull: held.ShareFull,
		ReadAhead: kept, Stopped: stopped,
	}
}
