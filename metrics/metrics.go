// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts the decisions of limits for Prometheus, as collectors in a registry
// of the program's own.
//
//	m, err := metrics.New(metrics.Options{Registerer: registry})
//	store := m.Wrap(memstore.New(memstore.Options{}), "memory")
//	mw, err := httplimit.New(httplimit.Options{Store: store, OnDecision: m.CountHTTP, OnEnd: m.EndHTTP, …})
//
// Neither keys nor other values that a client chooses become labels: the number of series
// depends only on the limits, stores and routes. docs/metrics.md lists them.
//
// A decision counts once, for the limit that binds. Only operations that admit or deny are
// decisions: take, take-up-to and reserve. The number of these operations is the sum of those
// allowed or denied by limits, those denied by slots, and errors.
package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Options configure [New]. The zero value is valid.
type Options struct {
	// Registerer gets the series, without those of the Go runtime and the process. Nil means
	// [prometheus.DefaultRegisterer].
	Registerer prometheus.Registerer
}

// Metrics are the series of one program. They are safe for concurrent use, and their methods
// do not block. An error of a Watch method means that another call with the same name has
// registered the series.
type Metrics struct {
	registerer prometheus.Registerer

	decisions *prometheus.CounterVec
	slots     *prometheus.CounterVec
	unlimited *prometheus.CounterVec
	asked     *prometheus.CounterVec
	failed    *prometheus.CounterVec
	took      *prometheus.HistogramVec
	pending   pending[operated]
	requests  [numVerdicts]prometheus.Counter
	delays    prometheus.Histogram

	http      *httpVecs
	routes    sync.Map // name to *route
	lastRoute atomic.Pointer[route]

	mu        sync.Mutex
	stores    map[string]*operations // by name
	numRoutes int
}

const numVerdicts = int(evaluate.FailedClosed) + 1

// Native histograms have this resolution, beside the listed buckets: 10 % apart, and coarser
// if more would be needed.
const (
	bucketFactor = 1.1
	maxBuckets   = 100
	resetAfter   = time.Hour
)

// histogram returns the options of a histogram in both forms.
func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: bucketFactor, NativeHistogramMaxBucketNumber: maxBuckets, NativeHistogramMinResetDuration: resetAfter,
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// New returns Metrics at zero and registers them. It fails if the registry has some of their
// names already, as those of other Metrics.
func New(o Options) (*Metrics, error) {
	if o.Registerer == nil {
		o.Registerer = prometheus.DefaultRegisterer
	}
	m := &Metrics{
		registerer: o.Registerer, stores: make(map[string]*operations), http: newHTTPVecs(),
		decisions: counter("sluice_decisions_total", "Decisions by the limit that binds.", "scope", "limit", "verdict"),
		slots:     counter("sluice_slot_decisions_total", "Slots requested, by the limit of requests in flight.", "scope", "limit", "verdict"),
		unlimited: counter("sluice_unlimited_requests_total", "Requests that a rule allowed without a call of the store, as their tier has no limits.", "scope"),
		asked:     counter("sluice_operations_total", "Store operations.", "store", "op"),
		failed:    counter("sluice_operation_errors_total", "Store operations that failed.", "store", "op"),
		took: prometheus.NewHistogramVec(histogram("sluice_operation_duration_seconds",
			"Time that a store operation took, as its caller saw it; of a batch, the whole of it for each operation.",
			1e-6, 1e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1), []string{"store", "op"}),
		delays: prometheus.NewHistogram(histogram("sluice_delay_seconds", "Delay of the requests that were allowed after one.",
			.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)),
	}
	requests := counter("sluice_requests_total", "Requests by verdict.", "verdict")
	for i := range m.requests {
		m.requests[i] = requests.WithLabelValues(evaluate.VerdictKind(i).String())
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the versions that this program was built from as labels.",
	}, []string{"version", "revision", "goversion"})
	build.WithLabelValues(buildInfo()).Set(1)
	op, over := m.pending.before, m.http.pending.before
	return m, m.register(op(m.decisions), m.slots, m.unlimited, op(m.asked), op(m.failed), op(m.took), m.delays, requests,
		over(m.http.took), over(m.http.header), over(m.http.sent), over(m.http.answered), m.http.failed, build)
}

// register adds collectors, all or none.
func (m *Metrics) register(all ...prometheus.Collector) error {
	for i, c := range all {
		err := m.registerer.Register(c)
		if err == nil {
			continue
		}
		for _, done := range all[:i] {
			m.registerer.Unregister(done)
		}
		if _, there := errors.AsType[prometheus.AlreadyRegisteredError](err); there {
			return fmt.Errorf("metrics: %w; a registry takes one Metrics, and one store of each name", err)
		}
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Count counts the outcome of a request. It is for OnDecision of [evaluate.Options] and of
// any front, with the arguments adapted.
func (m *Metrics) Count(e *evaluate.Event) {
	if int(e.Verdict) < len(m.requests) {
		m.requests[e.Verdict].Inc()
	}
	if e.Evaluated == nil || !e.Evaluated.Allowed {
		return
	}
	if d := e.Decision.Delay; d > 0 && e.Verdict.Passes() {
		m.delays.Observe(d.Seconds())
	}
	for _, l := range e.Evaluated.Unlimited {
		m.unlimited.WithLabelValues(label(l.Scope)).Inc()
	}
}

// CountHTTP counts the outcome of an HTTP request. It is for OnDecision of [httplimit.Options].
func (m *Metrics) CountHTTP(_ *http.Request, e httplimit.Event) { m.Count(&e.Event) }

// module is the path of this module, by which its version is found in a program.
const module = "github.com/sluicegate/sluice"

// buildInfo returns the versions that the program was built from, "unknown" where the linker
// has recorded none.
func buildInfo() (version, revision, goversion string) {
	const unknown = "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown, unknown, unknown
	}
	version, revision, goversion = unknown, unknown, info.GoVersion
	for _, d := range info.Deps {
		if d.Path == module {
			version = d.Version
		}
	}
	if info.Main.Path != module {
		return version, revision, goversion
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision, goversion
}
