// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/memstore"
	limitmetrics "github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/decisionlog"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/api"
	"github.com/sluicegate/sluice/server/internal/front/check"
	"github.com/sluicegate/sluice/server/internal/front/proxy"
	"github.com/sluicegate/sluice/server/internal/front/resp"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
	"github.com/sluicegate/sluice/server/internal/httpserver"
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
	report    func(context.Context, error)
	tally     tally.Tally
	overrides *overrides.List
	held      *evaluate.Queue // over all configurations
	clients   *httpserver.Bounds
	proxy     *proxy.Proxy
	check     check.Check
	api       *api.API
	resp      resp.RESP
	rls       rls.RLS
	places    *tcp.Places // of connections, of all listeners for clients
	now       func() time.Time
	logs      *logs

	mu      sync.Mutex // of changes
	current atomic.Pointer[snapshot]
}

// snapshot holds all that is made from one configuration, apart from the fronts' parts.
type snapshot struct {
	config    *config.Config
	claims    func(*http.Request) (func(string) (string, error), error)
	proxies   *proxies
	decisions *decisionlog.Encoder // nil without a decision log
	sinks     []front.Sink
}

func newRuntime(first *config.Config, log *slog.Logger, m *metrics.Metrics, counts *limitmetrics.Metrics, overrides *overrides.List, now func() time.Time) (*runtime, error) {
	s := &runtime{
		log: log, tokens: sampledlog.Log{Logger: log, Part: "tokens"}, metrics: m, counts: counts, overrides: overrides,
		held: evaluate.NewQueue(bounds.DefaultQueue), places: tcp.NewPlaces(defaultConnections), now: now, logs: newLogs(log),
	}
	s.clients = &httpserver.Bounds{
		Log: log, Memory: gateway.NewMemory(debug.SetMemoryLimit(-1), log), Lingering: gateway.NewLingering(defaultConnections / 4), NoMemory: s.noMemory,
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.current.Store(&snapshot{config: first}) // nothing is served yet
	asked := memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
	ownLimits, err := sluice.New(asked, "own-limits", sluice.PerMinute(30).WithBurst(10).WithName("own-limits"))
	if err != nil {
		return nil, err
	}
	s.proxy = proxy.New(proxy.Options{Log: log, Clients: s.clients, Upstreams: defaultConnections, OwnLimits: ownLimits})
	return s, counts.WatchMemory(asked.Stats, "own-limits")
}

// active returns the active configuration, or the first one before any is active.
func (s *runtime) active() *config.Config { return s.current.Load().config }

// activePolicy returns the policy of the active configuration.
func (s *runtime) activePolicy() *policy.Policy { return s.active().Policy }

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

// prepare makes all but the fronts' parts of a configuration.
func (s *runtime) prepare(c *config.Config) (g *snapshot, err error) {
	g = &snapshot{config: c}
	if g.proxies, err = newProxies(c, s.log, s.current.Load()); err != nil {
		return nil, err
	}
	if c.Tokens != nil {
		v, err := token.New(tokenOptions(c.Tokens, s.now, func(r *http.Request, err error) { s.tokens.Warn(r.Context(), "token not usable", err) }))
		if err != nil {
			return nil, fmt.Errorf("%s: tokens: %w", c.File, err)
		}
		g.claims = v.Claims
	}
	if g.decisions, err = s.logs.encoder(c); err != nil {
		return nil, err
	}
	g.sinks = s.sinks(g)
	return g, nil
}

func tokenOptions(t *config.Tokens, now func() time.Time, onRefuse func(*http.Request, error)) token.Options {
	return token.Options{
		Header: t.Header, Cookie: t.Cookie, JWKSFile: t.JWKS, HMACFile: t.HMAC, KeyFile: t.Key,
		Issuer: t.Issuer, Audience: t.Audience, Now: now, OnRefuse: onRefuse,
	}
}

// activate activates g, with the overrides, by use, and resizes the bounds to it.
func (s *runtime) activate(g *snapshot, use func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overrides.Follow(g.config.Policy, s.expiryNow(), func() {
		s.current.Store(g)
		use()
	}, s.logLost)
	s.tally.Follow(g.config.Policy)
	s.held.Resize(int(cmp.Or(g.config.MaxHeld, bounds.DefaultQueue)), int(g.config.MaxHeldPerKey))
	s.setPlaces(g.config)
}

// snapshotOf returns the part of g for one listener.
func (s *runtime) snapshotOf(g *snapshot, l *config.Listener) *front.Snapshot {
	return &front.Snapshot{
		Config: g.config, Listener: l, Policy: g.config.PolicyOf(l),
		Store: s.store, Overrides: s.overrides.Active(), Queue: s.held, Claims: g.claims,
		Sinks: g.sinks, Trace: s.trace.Handler, OnError: s.report, Now: s.expiryNow,
	}
}

// expiryNow returns the time by which overrides expire: that of a shared store.
func (s *runtime) expiryNow() time.Time { return s.now().Add(s.overrides.Drift()) }
