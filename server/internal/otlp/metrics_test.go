// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package otlp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	series "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/otlp"
)

// receiver is a collector that takes metrics by OTLP over HTTP and gRPC.
type receiver struct {
	collector.UnimplementedMetricsServiceServer

	mu      sync.Mutex
	exports int
	service string
	metrics map[string]*series.Metric     // one of each name
	points  map[string]map[string]float64 // of counters, by name and value of the first label
}

// Export takes metrics over gRPC.
func (r *receiver) Export(_ context.Context, export *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exports++
	for _, of := range export.GetResourceMetrics() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				r.metrics[m.GetName()] = m
				if r.points[m.GetName()] == nil {
					r.points[m.GetName()] = make(map[string]float64)
				}
				for _, p := range m.GetSum().GetDataPoints() {
					r.points[m.GetName()][p.GetAttributes()[0].GetValue().GetStringValue()] = p.GetAsDouble()
				}
			}
		}
	}
	return new(collector.ExportMetricsServiceResponse), nil
}

// ServeHTTP takes metrics over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var export collector.ExportMetricsServiceRequest
	if err := errors.Join(err, proto.Unmarshal(body, &export)); err != nil || req.URL.Path != "/v1/metrics" {
		http.Error(w, req.URL.Path, http.StatusBadRequest)
		return
	}
	_, _ = r.Export(req.Context(), &export) // never fails
}

// server is a collector over both protocols.
type server interface {
	http.Handler
	collector.MetricsServiceServer
}

// start serves both protocols and returns the URL of each.
func start(t *testing.T, r server) map[string]string {
	t.Helper()
	overHTTP := httptest.NewServer(r)
	t.Cleanup(overHTTP.Close)
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overGRPC := grpc.NewServer()
	collector.RegisterMetricsServiceServer(overGRPC, r)
	served := make(chan error, 1)
	go func() { served <- overGRPC.Serve(socket) }()
	t.Cleanup(func() {
		overGRPC.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return map[string]string{"http/protobuf": overHTTP.URL, "grpc": "http://" + socket.Addr().String()}
}

// TestMetrics: all series of a registry arrive with their values, types and descriptions, in
// exports that a collector with the usual bounds takes.
func TestMetrics(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			to := &receiver{metrics: make(map[string]*series.Metric), points: make(map[string]map[string]float64)}
			url := start(t, to)[protocol]
			registry := prometheus.NewRegistry()
			counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "decided_total", Help: "Decisions."}, []string{"rule"})
			gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "keys"})
			classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "classic_seconds", Buckets: []float64{1, 2}})
			native := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "native_seconds", Buckets: []float64{1, 2}, NativeHistogramBucketFactor: 1.1})
			registry.MustRegister(counter, gauge, classic, native)
			const rules = 30_000 // in one message more than gRPC's 4 MiB
			long := strings.Repeat("x", 100)
			for i := range rules {
				counter.WithLabelValues(long + strconv.Itoa(i)).Add(float64(i))
			}
			gauge.Set(7)
			for _, v := range []float64{.5, 1.5, 1.5, 3} {
				classic.Observe(v)
				native.Observe(v)
			}
			t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", protocol)
			var logs testkit.Buffer
			m, err := otlp.NewMetrics(t.Context(), registry, slog.New(slog.NewTextHandler(&logs, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(t.Context()); err != nil || logs.String() != "" {
				t.Fatalf("close: %v; logged %s", err, logs.String())
			}
			if n := len(to.points["decided_total"]); n != rules || to.exports < 2 || to.service != "sluice" {
				t.Fatalf("%d series in %d exports of %q", n, to.exports, to.service)
			}
			for i := range rules {
				if got := to.points["decided_total"][long+strconv.Itoa(i)]; got != float64(i) {
					t.Fatalf("%d is %v", i, got)
				}
			}
			sum := to.metrics["decided_total"]
			if s := sum.GetSum(); sum.GetDescription() != "Decisions." || !s.GetIsMonotonic() || s.GetAggregationTemporality() != series.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
				t.Errorf("got %q, %v, %v", sum.GetDescription(), s.GetIsMonotonic(), s.GetAggregationTemporality())
			}
			if got := to.metrics["keys"].GetGauge().GetDataPoints()[0].GetAsDouble(); got != 7 {
				t.Errorf("keys is %v", got)
			}
			if p := to.metrics["classic_seconds"].GetHistogram().GetDataPoints()[0]; p.GetCount() != 4 || p.GetSum() != 6.5 || len(p.GetBucketCounts()) != 3 || p.GetBucketCounts()[1] != 2 {
				t.Errorf("got %v", p)
			}
			if p := to.metrics["native_seconds"].GetExponentialHistogram().GetDataPoints()[0]; p.GetCount() != 4 || p.GetSum() != 6.5 {
				t.Errorf("got %v", p)
			}
		})
	}
}

// TestMetricsAskedFor: metrics are exported only if a variable asks for metrics.
func TestMetricsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		is   bool
		err  string
	}{
		{"nothing", nil, false, ""},
		{"an endpoint of all signals", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, false, ""},
		{"an endpoint", []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1"}, true, ""},
		{"an exporter", []string{"OTEL_METRICS_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, true, ""},
		{"none", []string{"OTEL_METRICS_EXPORTER", "none", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1"}, false, ""},
		{"Prometheus", []string{"OTEL_METRICS_EXPORTER", "prometheus"}, false, ""},
		{"disabled", []string{"OTEL_METRICS_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "true"}, false, ""},
		{"another exporter", []string{"OTEL_METRICS_EXPORTER", "console"}, false, "OTEL_METRICS_EXPORTER"},
		{"no URL", []string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector"}, false, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
		{"no attributes", []string{"OTEL_METRICS_EXPORTER", "otlp", "OTEL_RESOURCE_ATTRIBUTES", "x"}, false, "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv(c.env[i], c.env[i+1])
			}
			m, err := otlp.NewMetrics(t.Context(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			if (m != nil) != c.is || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v; want %v, %q", m, err, c.is, c.err)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMetricsNotTaken: a failed export is a line in the log.
func TestMetricsNotTaken(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", protocol)
			registry := prometheus.NewRegistry()
			registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total"}))
			var logs testkit.Buffer
			m, err := otlp.NewMetrics(t.Context(), registry, slog.New(slog.NewTextHandler(&logs, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			testkit.Contains(t, logs.String(), "the collector did not take metrics")
		})
	}
}

// hanging is a collector that does not answer.
type hanging struct {
	collector.UnimplementedMetricsServiceServer

	asked, release chan struct{}
}

// Export waits until release is closed.
func (h hanging) Export(context.Context, *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.release
	return new(collector.ExportMetricsServiceResponse), nil
}

// ServeHTTP waits until release is closed.
func (h hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = h.Export(r.Context(), nil)
} // never fails

// TestCollectorHangs: a collector that does not answer holds up the end of the program no longer
// than the program allows.
func TestCollectorHangs(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			to := hanging{asked: make(chan struct{}, 1), release: make(chan struct{})}
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", start(t, to)[protocol]+"/v1/metrics")
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", protocol)
			t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
			t.Cleanup(func() { close(to.release) }) // before the servers end
			registry := prometheus.NewRegistry()
			registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total"}))
			var logs testkit.Buffer
			m, err := otlp.NewMetrics(t.Context(), registry, slog.New(slog.NewTextHandler(&logs, nil)))
			if err != nil {
				t.Fatal(err)
			}
			<-to.asked
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			// Over gRPC the server may say that the time is over before the context ends.
			if err := m.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("close: %v", err)
			}
			testkit.Contains(t, logs.String(), "the collector did not take metrics")
		})
	}
}
