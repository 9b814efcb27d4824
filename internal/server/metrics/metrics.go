// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the series of a running sluice that the library does not have:
// of a gateway, its listeners and its configuration, of the Go runtime and the process.
// Those of the library's package metrics belong beside them. docs/metrics.md lists all.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice/internal/series"
)

// Metrics are the series of one program, in a registry of their own. They are
// safe for concurrent use.
type Metrics struct {
	registry    *prometheus.Registry
	shown       *prometheus.Registry // of the same collectors, those in shownSeries
	connections *prometheus.CounterVec
}

// New returns Metrics at zero.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), shown: prometheus.NewRegistry()}
	m.connections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_tcp_connections_total", Help: "TCP connections by outcome.",
	}, []string{"listener", "verdict"})
	m.registry.MustRegister(m.connections,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registerer returns where the series of the library are registered.
func (m *Metrics) Registerer() prometheus.Registerer { return registerer{m.registry, m.shown} }

// Shown returns the series that the page shows, of all that are registered. To gather all
// of them takes 66 MB where there are 20,000 rules.
func (m *Metrics) Shown() prometheus.Gatherer { return m.shown }

// watch registers c, whose values are put by collect. Each of these is watched once,
// in a registry that has no others.
func (m *Metrics) watch(c *series.Collector, collect func(chan<- prometheus.Metric)) {
	m.registry.MustRegister(c.With(collect))
}

// Handler returns the page that Prometheus reads. It has exemplars for clients that ask for
// OpenMetrics, and native histograms for those that ask for protocol buffers.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true, MaxRequestsInFlight: 4})
}
