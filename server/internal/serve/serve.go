// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	limitmetrics "github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/front/api"
	"github.com/sluicegate/sluice/server/internal/metrics"
	"github.com/sluicegate/sluice/server/internal/otlp"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/peers"
	"github.com/sluicegate/sluice/server/internal/reload"
	"github.com/sluicegate/sluice/server/internal/trace"
)

// Default addresses of clients and operators.
const (
	DefaultListen = "127.0.0.1:8080"
	DefaultAdmin  = "127.0.0.1:9090"
)

// Options are the options of Run. Config, Out and Log are required.
type Options struct {
	// Config is emptied once it is active, except for File, Version, Admin and Store.
	Config *config.Config
	// Watch reloads the file of Config when it changes, and on each value of Again.
	Watch bool
	Again <-chan os.Signal
	// Overrides and Audit, if not empty, replace the files in Config.
	Overrides, Audit string
	// Drain is how long requests may take to finish when the program ends.
	Drain time.Duration
	Out   io.Writer // receives the listeners and limits at the start
	Log   *slog.Logger
	Now   func() time.Time // of the store; nil means the system's clock
	// Started, if not nil, is called once, when Run serves and has emptied Config.
	Started func()
	// Around, if not nil, is called with the function that reads and activates a new
	// configuration, and must call it: that takes much memory for a moment.
	Around    func(func() error) error
	Intervals Intervals
}

// server is a running gateway.
type server struct {
	Options
	metrics   *metrics.Metrics
	counts    *limitmetrics.Metrics
	trace     *trace.Tracer // nil if tracing is off
	exported  *otlp.Metrics // nil if metrics are only read at /metrics
	store     *store
	runtime   *runtime
	watcher   *reload.Watcher
	audit     *audit.Log
	api       *admin.API   // nil if there is none
	peers     *peers.Peers // that share the store; nil if it is in this process
	strangers string       // other upstreams of the peers, as last logged
	rules     atomic.Pointer[hashed]
	latencies latencies // of the store
	active    string    // the version last logged
	listeners *listeners
	started   time.Time
}

// Run serves until ctx ends and all requests have been answered.
func Run(ctx context.Context, o Options) error {
	s := &server{Options: o, active: o.Config.Version, started: time.Now()}
	if err := s.wire(ctx); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	if err := s.listen(ctx); err != nil {
		return errors.Join(err, s.listeners.close(), s.close(ctx))
	}
	s.announce()
	logWarnings(s.Log, s.Config, s.runtime.now())
	defer notifySystemd(ctx, s.Log, "configuration "+o.Config.Version)()
	// The initial rules would stay in memory beside those of a reload as long as a caller has
	// them on its stack.
	*s.Config = config.Config{File: s.Config.File, Version: s.Config.Version, Admin: s.Config.Admin, Store: s.Config.Store}
	if s.Started != nil {
		s.Started()
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching)
	}()
	if s.api != nil {
		var pages sync.WaitGroup
		defer pages.Wait()
		pages.Go(func() { s.api.Run(watching) })
		pages.Go(func() { s.keepLatencies(watching) })
	}
	err := errors.Join(s.listeners.serve(ctx), s.store.save()) // no request is left
	stop()
	select {
	case <-watched:
	case <-time.After(endTimeout):
		s.Log.Warn("the program ends while a configuration is being read", slog.String("file", s.Config.File))
	}
	err = errors.Join(err, s.close(ctx))
	s.Log.Info("stopped")
	return err
}

// wire makes everything except the listeners' sockets.
func (s *server) wire(ctx context.Context) error {
	c := new(*s.Config) // a copy: Run empties the other one
	s.Intervals = s.Intervals.withDefaults()
	s.metrics = metrics.New()
	var err error
	if s.counts, err = limitmetrics.New(limitmetrics.Options{
		Registerer: s.metrics.Registerer(),
	}); err != nil {
		return err
	}
	if s.trace, err = trace.New(ctx, s.Log); err != nil {
		return err
	}
	list, err := overrides.Open(cmp.Or(s.Overrides, c.Admin.OverridesFile))
	if err != nil {
		return err
	}
	if s.runtime, err = newRuntime(c, s.Log, s.metrics, s.counts, list, s.Now); err != nil {
		return err
	}
	s.audit = audit.New(os.Stderr)
	if name := cmp.Or(s.Audit, c.Admin.AuditFile); name != "" {
		if s.audit, err = audit.Open(name); err != nil {
			return err
		}
	}
	s.store, err = openStore(c.Store, s.runtime, s.Now, s.Intervals) //nolint:contextcheck // the store has a timeout of its own
	if err != nil {
		return err
	}
	s.runtime.trace, s.runtime.report = s.trace, s.store.report
	s.runtime.store = s.trace.Wrap(s.counts.Wrap(s.store.store, s.store.name()), s.store.name())
	s.runtime.slots, _ = s.runtime.store.(sluice.SlotStore) // both kinds of store implement it
	own, _ := s.trace.Wrap(s.store.store, s.store.name()).(sluice.SlotStore)
	if s.runtime.api, err = api.New(api.Options{Clients: s.runtime.clients, Own: own, Now: s.Now}); err != nil {
		return err
	}
	s.watcher = s.newWatcher(ctx)
	logs, err := s.runtime.logs.prepare(c)
	if err != nil {
		return err
	}
	if err := logs.commit(); err != nil {
		return err
	}
	g, err := s.runtime.prepare(c)
	if err != nil {
		return err
	}
	s.runtime.activate(g, func() {})
	s.runtime.logs.logSecret(c)
	s.metrics.WatchPolicy(&s.runtime.tally, func() metrics.Config {
		v, failure := s.watcher.Status()
		return metrics.Config{File: v.File, Hash: v.Hash, Loaded: v.Loaded, Current: failure == nil}
	})
	s.metrics.WatchLimits(s.runtime.activePolicy)
	s.share(list)
	s.meetPeers()
	pages, err := s.adminHandler(list)
	if err != nil {
		return err
	}
	if sh := s.store.shared; sh != nil {
		sh.Join()
	}
	s.listeners = newListeners(s.runtime, pages, s.Drain) //nolint:contextcheck // requests end with their listener
	s.metrics.WatchLogs(s.runtime.logs.stats)
	s.metrics.WatchAbandoned(s.runtime.proxy.Abandoned.Stats)
	s.metrics.WatchTCP(s.listeners.stats)
	s.metrics.WatchRequests(s.listeners.requests)
	s.metrics.WatchHeld(s.runtime.heldBack)
	s.metrics.WatchCutOff(s.runtime.cutOff)
	s.metrics.WatchLingering(s.runtime.clients.Lingering.Stats)
	s.metrics.WatchClientMemory(s.runtime.clients.Memory.Stats)
	s.metrics.WatchUpstreams(s.runtime.proxy.Upstreams.Stats)
	s.metrics.WatchRefused("api", "Calls of the API that were not answered: without a valid token, of an operation that the token or the API does not have, with a body that is too large or no JSON, with faults, or with more new limits than a token may bring.", s.runtime.api.Refused)
	s.metrics.WatchRefused("check", "Sub-requests of proxies that were not decided: of a peer that is not trusted, or without a valid description of the client's request.", s.runtime.check.Refused)
	s.metrics.WatchRefused("resp", "Commands of the Redis protocol that were refused: without a valid token, of an operation or rule that the token does not have, unknown or with a fault; and connections that were closed: from a network that is not admitted, with bytes that are no command or more than are accepted, with no command, with half a command, with answers that were not read.", s.runtime.resp.Refused)
	s.metrics.WatchEnvoy(s.runtime.envoyStatistics)
	s.metrics.WatchCertificates(s.listeners.certificates)
	s.exported, err = otlp.NewMetrics(ctx, s.metrics.Gatherer(), s.Log)
	return err
}

func (s *server) close(ctx context.Context) error {
	s.closeExports(ctx)
	var errs []error
	if s.store != nil {
		errs = append(errs, s.store.close())
	}
	if s.runtime != nil {
		errs = append(errs, s.runtime.logs.close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	return errors.Join(errs...)
}

// closeExports sends the last spans and metrics. An unavailable collector is logged only.
func (s *server) closeExports(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		if err := s.exported.Close(ctx); err != nil {
			s.Log.Warn("the last metrics were not sent", slog.Any("error", err))
		}
	})
	if err := s.trace.Close(ctx); err != nil {
		s.Log.Warn("the last spans were not sent", slog.Any("error", err))
	}
}

// listen opens all listeners or none.
func (s *server) listen(ctx context.Context) error {
	if err := s.listeners.listen(ctx, s.runtime.current.Load(), listenersOf(s.Config)...); err != nil {
		return fmt.Errorf("%s: %w", s.Config.File, err)
	}
	at := cmp.Or(s.Config.Admin.Address, DefaultAdmin)
	if at == "off" {
		return nil
	}
	if err := s.listeners.listenAdmin(ctx, at); err != nil {
		return fmt.Errorf("%w; use another address for admin, or off", err)
	}
	return nil
}

// listenersOf returns the clients' listeners.
func listenersOf(c *config.Config) []config.Listener {
	if len(c.Listen) == 0 {
		return []config.Listener{{Address: DefaultListen, Allow: c.Allow, Deny: c.Deny}}
	}
	return c.Listen
}
