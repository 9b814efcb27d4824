// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/memstore"
	limitmetrics "github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/decisionlog"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/metrics"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/tally"
	"github.com/sluicegate/sluice/server/internal/token"
	"github.com/sluicegate/sluice/server/internal/trace"
)

// runtime answers clients under the active configuration. A new one replaces it as a whole
// between two requests; states are in the store and stay.
type runtime struct {
	log       *slog.Logger
	tokens    sampledlog.Log // refused tokens
	metrics   *metrics.Metrics
	counts    *limitmetrics.Metrics
	trace     *trace.Tracer
	store     sluice.Store
	slots     sluice.SlotStore
	report    func(*http.Request, error)
	tally     tally.Tally
	overrides *overrides.List
	held      *evaluate.Queue    // over all configurations
	abandoned *gateway.Abandoned // over all configurations
	ahead     *httplimit.ReadAhead
	memory    *gateway.Memory // nil without GOMEMLIMIT
	lingering *gateway.Lingering
	places    *tcp.Places // of connections, of all listeners for clients
	upstreams *gateway.Connections
	askers    *sluice.Limiter
	now       func() time.Time
	logs      *logs

	slowBodies   atomic.Int64 // cut off by the least rate of bodies
	longRequests atomic.Int64 // cut off by longest_request

	mu      sync.Mutex // of changes
	current atomic.Pointer[snapshot]
}

// snapshot holds all that is made from one configuration.
type snapshot struct {
	config    *config.Config
	limits    *httplimit.Middleware
	handler   http.Handler // limits around routes
	routes    http.Handler
	upstreams map[upstreamOf]*gateway.Gateway
	claims    func(*http.Request) (func(string) (string, error), error)
	proxies   *proxies
	decisions *decisionlog.Encoder // nil without a decision log
}

// upstreamOf holds the settings of a gateway: while they stay, the gateway and its connections
// are kept.
type upstreamOf struct {
	url     string
	timeout time.Duration
	longest time.Duration
	own     bool // UpstreamHost
	trusted string
}

func newRuntime(first *config.Config, log *slog.Logger, m *metrics.Metrics, counts *limitmetrics.Metrics, overrides *overrides.List, now func() time.Time) (*runtime, error) {
	s := &runtime{
		log: log, tokens: sampledlog.Log{Logger: log, Part: "tokens"}, metrics: m, counts: counts, overrides: overrides,
		held: evaluate.NewQueue(bounds.DefaultQueue), abandoned: gateway.NewAbandoned(gateway.DefaultAbandoned),
		ahead: new(httplimit.ReadAhead), places: tcp.NewPlaces(defaultConnections), now: now,
		memory: gateway.NewMemory(debug.SetMemoryLimit(-1), log), logs: newLogs(log),
		lingering: gateway.NewLingering(defaultConnections / 4),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.current.Store(&snapshot{config: first}) // nothing is served yet
	s.upstreams = gateway.NewConnections(defaultConnections, s.closeIdle)
	asked := memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
	var err error
	if s.askers, err = newAskers(asked); err != nil {
		return nil, err
	}
	return s, counts.WatchMemory(asked.Stats, "own-limits")
}

// active returns the active configuration, or the first one before any is active.
func (s *runtime) active() *config.Config { return s.current.Load().config }

// activePolicy returns the policy of the active configuration.
func (s *runtime) activePolicy() *policy.Policy { return s.active().Policy }

// ServeHTTP answers a client.
func (s *runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.current.Load().handler.ServeHTTP(w, r)
}

// leastBodyRate returns the least rate of a body in bytes a second; 0 is any.
func (s *runtime) leastBodyRate() int64 {
	return max(cmp.Or(s.current.Load().config.LeastBodyRate, leastBodyRate), 0)
}

// admits reports whether allow and deny admit a client.
func (s *runtime) admits(client netip.Addr) bool {
	c := s.current.Load().config
	clients := clientip.NewAdmission(c.Allow, c.Deny)
	return clients.Admits(client)
}

// claims verifies the token of a request to be explained.
func (s *runtime) claims(r *http.Request) (claims func(string) (string, error), required bool, err error) {
	g := s.current.Load()
	if g.claims != nil {
		claims, err = g.claims(r)
	}
	return claims, g.config.Tokens != nil && g.config.Tokens.Required, err
}

// exempt reports whether a client is exempt from all limits.
func (s *runtime) exempt(client netip.Addr) bool {
	return slices.ContainsFunc(s.current.Load().config.Exempt, func(p netip.Prefix) bool { return p.Contains(client) })
}

// failureOf returns the failure policy of a scope: that of its rule or its listener.
func (s *runtime) failureOf(scope string) sluice.Failure {
	c := s.active()
	if i, ok := c.Policy.RuleOf(scope); ok {
		return c.Policy.Rules()[i].Failure
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; strings.HasPrefix(scope, l.Scope()+"/") {
			return l.Limits.Failure
		}
	}
	return sluice.FailOpen
}

// leaseOf returns the terms on which the limits of a plan are leased, by its rule. After a
// change of the terms the store carries over what keys have spent, as after any change of a
// limit, and requests under the new terms do not use units leased under the old ones.
func (s *runtime) leaseOf(p *sluice.Plan) (terms sluice.LeaseTerms, leased bool) {
	rules := s.activePolicy()
	i, ok := rules.RuleOf(p.Scope())
	if !ok || rules.Rules()[i].Lease == nil {
		return terms, false
	}
	terms = *rules.Rules()[i].Lease
	_, _, err := p.Lease(terms) // limits of an override or a candidate may be no fit
	return terms, err == nil
}

// apply activates a configuration. If it returns an error, nothing has changed.
func (s *runtime) apply(c *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &snapshot{config: c}
	if err := s.addRoutes(g); err != nil {
		return err
	}
	var err error
	if g.proxies, err = newProxies(c, s.log, s.current.Load()); err != nil {
		return err
	}
	if c.Tokens != nil {
		v, err := token.New(tokenOptions(c.Tokens, s.now, func(r *http.Request, err error) { s.tokens.Warn(r.Context(), "token not usable", err) }))
		if err != nil {
			return fmt.Errorf("%s: tokens: %w", c.File, err)
		}
		g.claims = v.Claims
	}
	return s.enforce(g)
}

func tokenOptions(t *config.Tokens, now func() time.Time, onRefuse func(*http.Request, error)) token.Options {
	return token.Options{
		Header: t.Header, Cookie: t.Cookie, JWKSFile: t.JWKS, HMACFile: t.HMAC, KeyFile: t.Key,
		Issuer: t.Issuer, Audience: t.Audience, Now: now, OnRefuse: onRefuse,
	}
}

// enforce activates g with the overrides, and resizes the bounds to it.
func (s *runtime) enforce(g *snapshot) (err error) {
	if g.limits, err = s.newLimits(g); err != nil {
		return err
	}
	g.handler = s.trace.Handler(g.limits.Wrap(g.routes))
	var old *snapshot
	s.overrides.Follow(g.config.Policy, s.expiryNow(), func() { old = s.current.Swap(g) }, s.logLost)
	for at, up := range old.upstreams {
		if g.upstreams[at] != up {
			up.Close() // connections in use close when they are done
		}
	}
	s.tally.Follow(g.config.Policy)
	s.held.Resize(int(cmp.Or(g.config.MaxHeld, bounds.DefaultQueue)), int(g.config.MaxHeldPerKey))
	s.ahead.Resize(cmp.Or(g.config.MaxReadAhead, bounds.DefaultReadAhead))
	s.setPlaces(g.config)
	return nil
}

// expiryNow returns the time by which overrides expire: that of a shared store.
func (s *runtime) expiryNow() time.Time { return s.now().Add(s.overrides.Drift()) }

// closeIdle closes the idle connections to upstreams.
func (s *runtime) closeIdle() {
	for _, up := range s.current.Load().upstreams {
		up.Close()
	}
}

// addRoutes makes the routes of g, and the gateways that are not there yet.
func (s *runtime) addRoutes(g *snapshot) (err error) {
	c := g.config
	if len(c.Upstreams) == 0 {
		g.routes = newSampleApp()
		return nil
	}
	g.upstreams = make(map[upstreamOf]*gateway.Gateway)
	maps.Copy(g.upstreams, s.current.Load().upstreams)
	used := make(map[upstreamOf]bool)
	routes := make([]gateway.Route, len(c.Upstreams))
	for i, u := range c.Upstreams {
		at := upstreamOf{u.URL.String(), u.Timeout, u.LongestRequest, u.UpstreamHost, fmt.Sprint(c.ClientIP.Forwarding())}
		if g.upstreams[at] == nil {
			g.upstreams[at], err = gateway.New(at.url, gateway.Options{
				Trusted: c.ClientIP.Forwarding(), ResponseTimeout: u.Timeout, UpstreamHost: u.UpstreamHost, StallTimeout: stallTimeout,
				LongestRequest: u.LongestRequest, OnLongest: func() { s.longRequests.Add(1) },
				Abandoned: s.abandoned, Dial: s.upstreams.Dial, Log: s.log,
			})
			if err != nil {
				return err
			}
		}
		used[at] = true
		routes[i] = gateway.Route{Host: u.Host, Path: u.Path, MaxBody: u.MaxBody, Handler: g.upstreams[at]}
	}
	maps.DeleteFunc(g.upstreams, func(at upstreamOf, _ *gateway.Gateway) bool { return !used[at] })
	g.routes, err = gateway.NewRoutes(routes...)
	return err
}
