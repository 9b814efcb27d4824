// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what a store decides, for Prometheus.
//
//	m := metrics.New()
//	store := m.Wrap(memstore.New(memstore.Options{}))
//	mux.Handle("/metrics", m.Handler())
//
// No key and nothing else that a client chose ever becomes a label: the number
// of series depends on the limits alone. The series are
//
//	sluice_decisions_total{scope,limit,verdict}  requests allowed and denied
//	sluice_operations_total{op}                  everything asked of the store
//	sluice_store_errors_total{op}                what it could not decide
//	sluice_decision_duration_seconds             how long the caller waited
//	sluice_http_requests_total{verdict}          what became of HTTP requests
//	sluice_unlimited_requests_total{scope}       those of a plan without limits
//	sluice_keys, sluice_store_bytes              what a memory store holds
//	sluice_evictions_total                       states it had to forget
//	sluice_store_up, sluice_store_outages_total  how a shared store fares
//	sluice_degraded_total{policy}                what was decided in its place
//	sluice_lease_store_calls_total               what leased limits asked the store
//	sluice_lease_decisions_total{verdict}        what they decided without it
//	sluice_build_info{version,revision,goversion}
//
// beside those of the Go runtime and the process. A decision counts once, for
// the limit that binds. Only what admits or denies is one: take, take-up-to and
// reserve. So, of these operations, allowed + denied + errors = operations.
package metrics

import (
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// Metrics are the series of one program, in a registry of their own. They are
// safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
	duration  prometheus.Histogram
	ops       [numOps]opCounters
	requests  [numVerdicts]prometheus.Counter

	connections *prometheus.CounterVec
	unlimited   *prometheus.CounterVec
}

type opCounters struct{ asked, failed prometheus.Counter }

const (
	numOps      = int(sluice.OpConvert) + 2 // the last is for what is not an Op
	numVerdicts = int(policy.FailedClosed) + 1
)

// New returns Metrics at zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_decisions_total", Help: "Decisions by the limit that binds.",
		}, []string{"scope", "limit", "verdict"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_decision_duration_seconds", Help: "How long the store took, as its caller saw it; of a batch, the whole of it for each request.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 12), // 1 µs to 4.2 s
		}),
	}
	m.connections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_tcp_connections_total", Help: "TCP connections by what became of them.",
	}, []string{"listener", "verdict"})
	m.unlimited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_unlimited_requests_total", Help: "Requests that a rule let pass, as their plan has no limits; the store was not asked.",
	}, []string{"scope"})
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_operations_total", Help: "Everything that was asked of the store.",
	}, []string{"op"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_store_errors_total", Help: "What the store could not decide.",
	}, []string{"op"})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_http_requests_total", Help: "HTTP requests by what became of them.",
	}, []string{"verdict"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, labelled by what this program was built from.",
	}, []string{"version", "revision", "goversion"})
	for i := range m.ops {
		op := "unknown"
		if i < numOps-1 {
			op = sluice.Op(i).String()
		}
		m.ops[i] = opCounters{asked.WithLabelValues(op), failed.WithLabelValues(op)}
	}
	for i := range m.requests {
		m.requests[i] = requests.WithLabelValues(policy.VerdictKind(i).String())
	}
	version, revision, goversion := buildInfo()
	build.WithLabelValues(version, revision, goversion).Set(1)
	m.registry.MustRegister(m.decisions, m.duration, asked, failed, requests, m.connections, m.unlimited, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo returns what the program was built from, "unknown" where the
// linker did not say.
func buildInfo() (version, revision, goversion string) {
	version, revision, goversion = "unknown", "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision, goversion
	}
	version, goversion = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision, goversion
}

// CountHTTP counts what became of an HTTP request. It fits OnDecision of
// [httplimit.Options].
func (m *Metrics) CountHTTP(_ *http.Request, e httplimit.Event) {
	if int(e.Verdict) < len(m.requests) {
		m.requests[e.Verdict].Inc()
	}
	if e.Judged == nil || !e.Judged.Allowed {
		return
	}
	for r, l := range e.Judged.Unlimited() {
		scope := r.Name
		if l.Name != "" {
			scope += "/" + l.Name
		}
		m.unlimited.WithLabelValues(scope).Inc()
	}
}

// Handler returns the page that Prometheus reads.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4})
}

// Registry returns where the series are registered, for more to be added.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }
