// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/failure"
	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/admin"
	"github.com/sluicegate/sluice/server/metrics"
	"github.com/sluicegate/sluice/server/tally"
	"github.com/sluicegate/sluice/server/token"
)

// askOwn is how often a client may ask for its own limits.
const askOwn = "30/min burst 10"

// site answers clients as the configuration in force says. A new one takes its
// place as a whole, between two requests: states are in the store and stay.
type site struct {
	log       *slog.Logger
	tokens    sampledlog.Log // that are refused
	metrics   *metrics.Metrics
	store     sluice.Store
	slots     sluice.SlotStore
	report    func(*http.Request, error)
	tally     tally.Tally
	overrides *admin.Overrides
	queue     *httplimit.Queue
	askers    *sluice.Limiter
	now       func() time.Time

	mu      sync.Mutex // of changes, taken inside that of overrides
	current atomic.Pointer[generation]
}

// generation is what one configuration, with the overrides of its time, makes.
type generation struct {
	config    *file.Config
	policy    *policy.Policy // overrides included
	limits    *httplimit.Middleware
	handler   http.Handler // limits around routes
	routes    http.Handler
	upstreams map[upstreamOf]*gateway.Gateway
	claims    func(*http.Request) (func(string) (string, error), error)
}

// upstreamOf is what a gateway depends on: while that stays it is kept, with its
// connections.
type upstreamOf struct {
	url     string
	timeout time.Duration
	own     bool // its own name in Host
	trusted string
}

func newSite(log *slog.Logger, m *metrics.Metrics, overrides *admin.Overrides, now func() time.Time) (*site, error) {
	s := &site{log: log, tokens: sampledlog.Log{Logger: log, Part: "tokens"}, metrics: m, overrides: overrides, queue: httplimit.NewQueue(httplimit.DefaultQueue), now: now}
	if s.now == nil {
		s.now = time.Now
	}
	limit, err := sluice.ParseLimit(askOwn)
	if err != nil {
		return nil, err
	}
	s.askers, err = sluice.New(memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now}), "own-limits", limit.Named("own-limits"))
	return s, err
}

// ServeHTTP answers a client.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.current.Load().handler.ServeHTTP(w, r)
}

// admits reports whether a client is let in at all.
func (s *site) admits(client netip.Addr) bool { return s.current.Load().limits.Admits(client) }

// exempt reports whether no limit applies to a client.
func (s *site) exempt(client netip.Addr) bool {
	return slices.ContainsFunc(s.current.Load().config.Exempt, func(p netip.Prefix) bool { return p.Contains(client) })
}

// policyInForce returns the policy with all overrides.
func (s *site) policyInForce() *policy.Policy { return s.current.Load().policy }

// failureOf returns what happens to requests under a plan while a shared store
// is away: what its rule or its listener says.
func (s *site) failureOf(p *sluice.Plan) failure.Policy { return s.failureOfScope(p.Scope()) }

func (s *site) failureOfScope(scope string) failure.Policy {
	g := s.current.Load()
	if g == nil {
		return failure.Open
	}
	if r, ok := g.policy.RuleOf(scope); ok {
		return worded(r.Failure)
	}
	for i := range g.config.Listen {
		if l := &g.config.Listen[i]; strings.HasPrefix(scope, l.Scope()+"/") {
			return worded(l.Limits.Failure)
		}
	}
	return failure.Open
}

// worded returns the failure policy of a word of a file.
func worded(f policy.Failure) failure.Policy {
	switch f {
	case policy.Open:
		return failure.Open
	case policy.Local:
		return failure.Local
	default:
		return failure.Closed
	}
}

// leaseOf returns whether the limits of a plan are leased, and how: as the rule
// says whose they are. After a change of that the store carries over what keys
// have spent, as after any change of a limit, and what is still in hand under
// the old terms is not used by requests under the new ones.
func (s *site) leaseOf(p *sluice.Plan) (terms sluice.LeaseTerms, leased bool) {
	g := s.current.Load()
	if g == nil {
		return terms, false
	}
	r, ok := g.policy.RuleOf(p.Scope())
	if !ok {
		return terms, false
	}
	return r.Leased(p)
}

// apply puts a configuration in force. If it returns an error nothing changes.
func (s *site) apply(c *file.Config) error {
	return s.overrides.Apply(s.now(), func(all []admin.StoredOverride) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.generate(c, all)
	})
}

// generate makes a generation of a configuration and puts it in force.
func (s *site) generate(c *file.Config, overrides []admin.StoredOverride) error {
	g := &generation{config: c}
	if err := s.addRoutes(g); err != nil {
		return err
	}
	if c.Tokens != nil {
		v, err := token.New(tokenOptions(c.Tokens, s.now, func(r *http.Request, err error) { s.tokens.Warn(r.Context(), "token not usable", err) }))
		if err != nil {
			return fmt.Errorf("%s: tokens: %w", c.File, err)
		}
		g.claims = v.Claims
	}
	return s.enforce(g, overrides)
}

func tokenOptions(t *file.Tokens, now func() time.Time, onRefuse func(*http.Request, error)) token.Options {
	return token.Options{
		Header: t.Header, Cookie: t.Cookie, JWKSFile: t.JWKS, HMACFile: t.HMAC, KeyFile: t.Key,
		Issuer: t.Issuer, Audience: t.Audience, Now: now, OnRefuse: onRefuse,
	}
}

// override puts the configuration in force once more, with other overrides.
func (s *site) override(all []admin.StoredOverride) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := *s.current.Load()
	return s.enforce(&g, all)
}

// enforce makes the handler of g and puts it in the place of the one before.
func (s *site) enforce(g *generation, overrides []admin.StoredOverride) error {
	lost, err := g.override(overrides)
	if err != nil {
		return err
	}
	fields := fieldsOf(g.config.Fields)
	own, err := httplimit.NewOwn(g.policy, s.store, s.askers, fields, s.now)
	if err != nil {
		return err
	}
	g.limits, err = httplimit.New(httplimit.Options{
		Policy: g.policy, Store: s.store, Slots: s.slots,
		Trusted: g.config.ClientIP.Trusted, ClientHeader: g.config.ClientIP.Header, Claims: g.claims, TokenRequired: g.config.Tokens != nil && g.config.Tokens.Required,
		Allow: g.config.Allow, Deny: g.config.Deny, Fields: fields,
		Queue: s.queue, Own: own, OnDecision: s.count, OnError: s.report, Now: s.now,
	})
	if err != nil {
		return err
	}
	g.handler = g.limits.Wrap(g.routes)
	s.tellLost(lost)
	s.tally.Follow(g.policy)
	s.queue.Resize(int(cmp.Or(g.config.MaxHeld, httplimit.DefaultQueue)))
	old := s.current.Swap(g)
	if old == nil {
		return nil
	}
	for at, up := range old.upstreams {
		if g.upstreams[at] != up {
			up.Close() // connections in use close when they are done
		}
	}
	return nil
}

// override makes the policy of g: that of its configuration with the overrides.
// It returns those that are left out.
func (g *generation) override(overrides []admin.StoredOverride) (lost []admin.LostOverride, err error) {
	g.policy = g.config.Policy
	if len(overrides) == 0 {
		return nil, nil
	}
	g.policy, lost, err = admin.CompileWith(g.policy.Rules(), overrides, pacer())
	return lost, err
}

// addRoutes makes what passes requests on.
func (s *site) addRoutes(g *generation) error {
	c := g.config
	g.upstreams = make(map[upstreamOf]*gateway.Gateway)
	var before map[upstreamOf]*gateway.Gateway
	if old := s.current.Load(); old != nil {
		before = old.upstreams
	}
	if len(c.Upstreams) == 0 {
		g.routes = newSampleApp()
		return nil
	}
	var routes []gateway.Route
	var faults []error
	for _, u := range c.Upstreams {
		at := upstreamOf{u.URL.String(), u.Timeout, u.UpstreamHost, fmt.Sprint(c.ClientIP.Trusted)}
		up := g.upstreams[at]
		if up == nil {
			up = before[at]
		}
		if up == nil {
			var err error
			up, err = gateway.New(at.url, gateway.Options{
				Trusted: c.ClientIP.Trusted, ResponseTimeout: u.Timeout, UpstreamHost: u.UpstreamHost, StallTimeout: stallTimeout, Log: s.log,
			})
			if err != nil {
				faults = append(faults, err)
				continue
			}
		}
		g.upstreams[at] = up
		routes = append(routes, gateway.Route{Host: u.Host, Path: u.Path, MaxBody: u.MaxBody, Handler: up})
	}
	var err error
	if g.routes, err = gateway.NewRoutes(routes...); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// count counts what became of a request.
func (s *site) count(r *http.Request, e httplimit.Event) {
	if e.Judged != nil {
		s.tally.Count(e.Judged)
	}
	s.metrics.CountHTTP(r, e)
}

// fieldsOf returns the header fields that the configuration names.
func fieldsOf(words []string) (fields httplimit.Fields) {
	for _, word := range words {
		fields |= fieldNames[word]
	}
	return fields
}
