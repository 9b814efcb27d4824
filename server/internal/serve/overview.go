// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"maps"
	"runtime/metrics"
	"slices"

	"github.com/sluicegate/sluice/server/internal/overview"
)

// state returns the data that the pages poll.
func (s *server) state() overview.State {
	v, failure := s.watcher.Status()
	st := overview.State{
		Delayed: s.runtime.held.Stats().Held, StoreUp: s.store.up(), Version: v.Hash, Current: failure == nil,
	}
	d := s.listeners
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range slices.Concat(d.open, d.leaving) {
		st.InFlight += int64(o.front.InFlight())
	}
	return st
}

// up reports whether requests go to the store.
func (s *store) up() bool {
	return s.shared == nil || s.shared.Up()
}

// system returns the state of the program apart from its rules.
func (s *server) system() overview.System {
	held := s.runtime.heldBack()
	connections := s.runtime.proxy.Upstreams.Stats()
	o := overview.System{
		Started: s.started.UTC(), Config: s.configOverview(), InFlight: s.state().InFlight,
		Queue: overview.Queue{Delayed: held.Requests, Full: held.Full, ShareFull: held.ShareFull, ReadAhead: held.ReadAhead},
		Store: s.storeOverview(),
		Upstreams: overview.Upstreams{
			URLs: s.upstreamURLs(), Open: connections.Open,
			Refused: connections.Full + connections.NoDescriptor + connections.NoPort,
		},
		Certificates: s.listeners.certificateOverviews(), Memory: s.memoryOverview(),
	}
	s.addSeries(&o)
	return o
}

func (s *server) configOverview() overview.Config {
	v, failure := s.watcher.Status()
	c := s.runtime.active()
	p := c.Policy
	o := overview.Config{File: v.File, Version: v.Hash, Loaded: v.Loaded.UTC(), Tokens: c.Tokens != nil, Rules: len(p.Rules())}
	if failure != nil {
		o.Failure = failure.Error()
	}
	for _, trusted := range c.ClientIP.Trusted {
		o.Trusted = append(o.Trusted, trusted.String())
	}
	d := s.listeners
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.open {
		o.Listeners = append(o.Listeners, l.url())
	}
	if d.adminSocket != nil {
		o.Admin = d.adminSocket.Addr().String()
	}
	return o
}

// upstreamURLs returns the URLs of the upstreams. They hold no passwords: a configuration
// refuses URLs with a user.
func (s *server) upstreamURLs() []string {
	urls := []string{}
	c := s.runtime.active()
	for _, u := range c.Upstreams {
		urls = append(urls, u.URL.String())
	}
	return urls
}

func (s *server) storeOverview() overview.Store {
	line, _ := s.store.ready()
	o := overview.Store{Kind: "memory", Up: s.store.up(), Text: line}
	if sh := s.store.shared; sh != nil {
		stats := sh.Decisions().Stats()
		o.NotApplied, o.NotAppliedSince = sh.NotApplied()
		o.Kind, o.Target, o.Nodes = "redis", sh.Target().String(), sh.Live()
		o.Outages, o.InFlight, o.Degraded = stats.Outages, stats.InFlight, s.runtime.tally.Total().Degraded
		return o
	}
	stats := s.store.memory.Stats()
	o.Keys, o.Bytes, o.Evicted = stats.States, stats.Bytes, stats.Evicted
	return o
}

// scraped holds the values that the page takes from the metrics.
type scraped struct {
	durations        // of the store's operations
	failed    uint64 // of these
	build     overview.Build
}

// scraped reads those values. It reports false if the metrics cannot be gathered; the metrics
// page returns that error.
func (s *server) scraped() (x scraped, ok bool) {
	families, err := s.metrics.Shown().Gather()
	if err != nil {
		return x, false
	}
	x.below = make(map[float64]uint64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			own := labels["store"] == s.store.name()
			switch name := f.GetName(); {
			case name == "sluice_operation_duration_seconds" && own:
				x.all += m.GetHistogram().GetSampleCount()
				for _, b := range m.GetHistogram().GetBucket() {
					x.below[b.GetUpperBound()] += b.GetCumulativeCount()
				}
			case name == "sluice_operation_errors_total" && own:
				x.failed += uint64(m.GetCounter().GetValue())
			case name == "sluice_build_info":
				x.build = overview.Build{Version: labels["version"], Revision: labels["revision"], Go: labels["goversion"]}
			}
		}
	}
	return x, true
}

// addSeries adds the values that come from the metrics.
func (s *server) addSeries(o *overview.System) {
	x, ok := s.scraped()
	if !ok {
		return
	}
	o.Build, o.Store.Asked, o.Store.Failed = x.build, x.all, x.failed
	late, since := s.latencies.late(x.durations, s.started)
	o.Store.LatencySince, o.Store.P50, o.Store.P99 = since.UTC(), late.quantile(0.5), late.quantile(0.99)
}

func (s *server) memoryOverview() overview.Memory {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	clients := s.runtime.clients.Memory.Stats()
	return overview.Memory{
		Total: int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()), Limit: clients.Most, Clients: clients.Taken,
	}
}

// certificateOverviews returns the certificates of the listeners, sorted by listener name.
func (d *listeners) certificateOverviews() []overview.Certificate {
	var all []overview.Certificate
	pairs := d.pairs()
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		p := pairs[name]
		o := overview.Certificate{Listener: name, NotAfter: p.NotAfter().UTC()}
		if err := fault(p); err != nil {
			o.Failure = err.Error()
		}
		if c, err := p.GetCertificate(nil); err == nil && c.Leaf != nil {
			o.Names = slices.Clone(c.Leaf.DNSNames)
			for _, ip := range c.Leaf.IPAddresses {
				o.Names = append(o.Names, ip.String())
			}
			if len(o.Names) == 0 {
				o.Names = []string{cmp.Or(c.Leaf.Subject.CommonName, "none")}
			}
		}
		all = append(all, o)
	}
	return all
}
