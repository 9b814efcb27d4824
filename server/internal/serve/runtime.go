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
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/decisionlog"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/metrics"
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
	overrides *admin.Overrides
	held      *policy.Queue      // over all configurations
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

	mu      sync.Mutex // of changes, locked inside that of overrides
	current atomic.Pointer[snapshot]
}

// snapshot holds all that is made from one configuration and its overrides.
type snapshot struct {
	config    *config.Config
	policy    *policy.Policy // overrides included
	limits    *httplimit.Middleware
	handler   http.Handler // limits around routes
	routes    http.Handler
	upstreams map[upstreamOf]*gateway.Gateway
	claims    func(*http.Request) (func(string) (string, error), error)
	proxies   *proxies
	decisions *decisionlog.Encoder // nil without a decision log
	lost      map[string]string    // why overrides are left out, by ID
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

func newRuntime(first *config.Config, log *slog.Logger, m *metrics.Metrics, counts *limitmetrics.Metrics, overrides *admin.Overrides, now func() time.Time) (*runtime, error) {
	s := &runtime{
		log: log, tokens: sampledlog.Log{Logger: log, Part: "tokens"}, metrics: m, counts: counts, overrides: overrides,
		held: policy.NewQueue(bounds.DefaultQueue), abandoned: gateway.NewAbandoned(gateway.DefaultAbandoned),
		ahead: new(httplimit.ReadAhead), places: tcp.NewPlaces(defaultConnections), now: now,
		memory: gateway.NewMemory(debug.SetMemoryLimit(-1), log), logs: newLogs(log),
		lingering: gateway.NewLingering(defaultConnections / 4),
	}
	if s.now == nil {
		s.now = time.Now
	}
	overrides.Follow(s.override)
	s.current.Store(&snapshot{config: first, policy: first.Policy}) // nothing is served yet
	s.upstreams = gateway.NewConnections(defaultConnections, s.closeIdle)
	asked := memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
	var err error
	if s.askers, err = newAskers(asked); err != nil {
		return nil, err
	}
	return s, counts.WatchMemory(asked.Stats, "own-limits")
}

// active returns the active configuration, or the first one before any is active, and its
// policy with all overrides.
func (s *runtime) active() (*config.Config, *policy.Policy) {
	g := s.current.Load()
	return g.config, g.policy
}

// activePolicy returns the policy with all overrides.
func (s *runtime) activePolicy() *policy.Policy {
	_, p := s.active()
	return p
}

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
func (s *runtime) claims(r *http.Request) (claims policy.Lookup, required bool, err error) {
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
	c, p := s.active()
	if r, ok := p.RuleOf(scope); ok {
		return r.Failure
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
	r, ok := s.activePolicy().RuleOf(p.Scope())
	if !ok {
		return terms, false
	}
	return r.Leased(p)
}

// apply activates a configuration. If it returns an error, nothing has changed.
func (s *runtime) apply(c *config.Config) error {
	return s.overrides.Apply(s.expiryNow(), func(all []admin.StoredOverride) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.generate(c, all)
	})
}

// generate makes a snapshot of a configuration and activates it.
func (s *runtime) generate(c *config.Config, overrides []admin.StoredOverride) error {
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
	return s.enforce(g, overrides)
}

func tokenOptions(t *config.Tokens, now func() time.Time, onRefuse func(*http.Request, error)) token.Options {
	return token.Options{
		Header: t.Header, Cookie: t.Cookie, JWKSFile: t.JWKS, HMACFile: t.HMAC, KeyFile: t.Key,
		Issuer: t.Issuer, Audience: t.Audience, Now: now, OnRefuse: onRefuse,
	}
}

// mostPut is the most changes of overrides that are put over the policy one by one; more are
// compiled together with all others.
const mostPut = 32

// override puts changed overrides over the active policy. The overrides call it; all returns
// all of them.
func (s *runtime) override(changed []admin.StoredOverride, all func() []admin.StoredOverride) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := *s.current.Load()
	if len(changed) > mostPut {
		lost, err := g.override(all())
		if err != nil {
			return err
		}
		return s.activate(&g, lost)
	}
	p, lost, err := admin.Put(g.config.Policy, g.policy, changed)
	if err != nil {
		return err
	}
	g.policy, g.lost = p, maps.Clone(g.lost)
	for i := range changed {
		delete(g.lost, changed[i].ID())
	}
	return s.activate(&g, lost)
}

// enforce compiles the overrides of g, activates it and resizes the bounds to it.
func (s *runtime) enforce(g *snapshot, overrides []admin.StoredOverride) error {
	lost, err := g.override(overrides)
	if err != nil {
		return err
	}
	if err := s.activate(g, lost); err != nil {
		return err
	}
	s.tally.Follow(g.policy)
	s.held.Resize(int(cmp.Or(g.config.MaxHeld, bounds.DefaultQueue)))
	s.held.Share(int(g.config.MaxHeldPerKey))
	s.ahead.Resize(cmp.Or(g.config.MaxReadAhead, bounds.DefaultReadAhead))
	s.setPlaces(g.config)
	return nil
}

// activate replaces the active snapshot by g. It logs and records the lost overrides.
func (s *runtime) activate(g *snapshot, lost []admin.LostOverride) (err error) {
	if g.limits, err = s.newLimits(g); err != nil {
		return err
	}
	g.handler = s.trace.Handler(g.limits.Wrap(g.routes))
	s.logLost(lost)
	for i := range lost {
		if g.lost == nil {
			g.lost = make(map[string]string)
		}
		g.lost[lost[i].ID()] = lost[i].Problem
	}
	old := s.current.Swap(g)
	for at, up := range old.upstreams {
		if g.upstreams[at] != up {
			up.Close() // connections in use close when they are done
		}
	}
	return nil
}

// unused returns why the active policy leaves an override out, or "" if it does not.
func (s *runtime) unused(o *admin.StoredOverride) string { return s.current.Load().lost[o.ID()] }

// expiryNow returns the time by which overrides expire: that of a shared store.
func (s *runtime) expiryNow() time.Time { return s.now().Add(s.overrides.Drift()) }

// closeIdle closes the idle connections to upstreams.
func (s *runtime) closeIdle() {
	for _, up := range s.current.Load().upstreams {
		up.Close()
	}
}

// override compiles the policy of g from its configuration and the overrides. It returns the
// overrides that are left out.
func (g *snapshot) override(overrides []admin.StoredOverride) (lost []admin.LostOverride, err error) {
	g.policy, g.lost = g.config.Policy, nil
	if len(overrides) == 0 {
		return nil, nil
	}
	g.policy, lost, err = admin.CompileWith(g.policy.Rules(), overrides)
	return lost, err
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
