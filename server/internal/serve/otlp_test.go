// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// metricsReceiver is a collector that takes metrics over gRPC. It keeps the last values of
// counters, by name and labels.
type metricsReceiver struct {
	collector.UnimplementedMetricsServiceServer

	mu     sync.Mutex
	values map[string]float64
}

// Export takes metrics.
func (r *metricsReceiver) Export(_ context.Context, export *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range export.GetResourceMetrics() {
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				for _, p := range m.GetSum().GetDataPoints() {
					labels := make(map[string]string)
					for _, a := range p.GetAttributes() {
						labels[a.GetKey()] = a.GetValue().GetStringValue()
					}
					r.values[m.GetName()+seriesOf(labels)] = p.GetAsDouble()
				}
			}
		}
	}
	return new(collector.ExportMetricsServiceResponse), nil
}

func seriesOf(labels map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func (r *metricsReceiver) value(name string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[name]
}

// TestMetricsExported: if the environment asks for metrics, a collector gets the values of
// /metrics at intervals, and the last ones when the gateway ends.
func TestMetricsExported(t *testing.T) {
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := &metricsReceiver{values: make(map[string]float64)}
	server := grpc.NewServer()
	collector.RegisterMetricsServiceServer(server, to)
	served := make(chan error, 1)
	go func() { served <- server.Serve(socket) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://"+socket.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {})
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, limits: 2/h}]\n", up))
	get := func(n int) {
		for range n {
			s.Get(t, "/")
		}
	}
	get(5)
	const denied = `sluice_requests_total{verdict="denied"}`
	testkit.Until(t, "the denials to be exported", func() bool { return to.value(denied) == 3 })
	get(4)
	page := families(t, s)
	s.End(t)
	if got := to.value(denied); got != 7 {
		t.Errorf("%v denials were exported, want 7", got)
	}
	for _, name := range []string{"sluice_requests_total", "sluice_decisions_total", "sluice_operations_total"} {
		for _, m := range page[name].GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if got, want := to.value(name+seriesOf(labels)), m.GetCounter().GetValue(); got != want {
				t.Errorf("%s%s is %v, and %v at /metrics", name, seriesOf(labels), got, want)
			}
		}
	}
}

// TestMetricsAskedForWrongly: a gateway does not start with an invalid request for metrics.
func TestMetricsAskedForWrongly(t *testing.T) {
	startsWrongly(t, "OTEL_METRICS_EXPORTER", "console")
}
