// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

// maxPoints is the largest number of series in one export, so that it stays below the 4 MiB
// that a collector takes over gRPC by default.
const maxPoints = 4000

// Metrics exports the series of a program at intervals. A nil Metrics exports none.
type Metrics struct {
	provider *metric.MeterProvider
}

// NewMetrics exports what from gathers, until Close. It returns nil if the environment asks for
// no metrics. Log receives failed exports, at most one a second.
func NewMetrics(ctx context.Context, from prometheus.Gatherer, log *slog.Logger) (*Metrics, error) {
	if wanted, err := metrics.wanted(general + "METRICS_ENDPOINT"); err != nil || !wanted {
		return nil, err
	}
	e, err := read(metrics, "/v1/metrics")
	if err != nil {
		return nil, err
	}
	about, err := Resource(ctx)
	if err != nil {
		return nil, err
	}
	var to metric.Exporter
	if e.grpc {
		to, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(e.endpoint), otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	} else {
		to, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(e.endpoint), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	}
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	reported := metricExporter{to, e, &sampledlog.Log{Logger: log, Part: "metrics"}}
	reader := metric.NewPeriodicReader(reported, metric.WithMaxExportBatchSize(maxPoints),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))
	return &Metrics{metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about))}, nil
}

// metricExporter logs metrics that were not taken.
type metricExporter struct {
	metric.Exporter
	environment *environment
	log         *sampledlog.Log
}

// Export implements [metric.Exporter].
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.log.Warn(ctx, "the collector did not take metrics; see OTEL_EXPORTER_OTLP_ENDPOINT", e.environment.redact(err))
	}
	return nil
}

// Close exports the last values. It returns when ctx ends.
func (m *Metrics) Close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("otlp: close: %w", err)
	}
	return nil
}
