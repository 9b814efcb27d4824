// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package otlp exports spans and metrics to an OpenTelemetry collector, by OpenTelemetry's own
// exporters, if the standard environment variables ask for it:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, …_TRACES_ENDPOINT, …_METRICS_ENDPOINT  URL of the collector
//	OTEL_EXPORTER_OTLP_PROTOCOL                                         http/protobuf, or grpc
//	OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY
//	OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER                         otlp, or none
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES                         the service
//	OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG                        the traces that are sent
//	OTEL_BSP_*                                                          size and interval of batches of spans
//	OTEL_METRIC_EXPORT_INTERVAL, _TIMEOUT                               of metrics
//
// A bad value is an error at the start. A failed export is logged and not repeated: nothing is
// sent twice.
package otlp

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

// Spans returns an exporter of spans, or nil if the environment asks for none. Log receives
// failed exports, at most one a second. The caller must call Shutdown.
func Spans(ctx context.Context, log *slog.Logger) (trace.SpanExporter, error) {
	if wanted, err := traces.wanted(general+"ENDPOINT", general+"TRACES_ENDPOINT"); err != nil || !wanted {
		return nil, err
	}
	e, err := read(traces, "/v1/traces")
	if err != nil {
		return nil, err
	}
	var to *otlptrace.Exporter
	if e.grpc {
		to, err = otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(e.endpoint), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	} else {
		to, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(e.endpoint), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	}
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	return spanExporter{to, e, &sampledlog.Log{Logger: log, Part: "trace"}}, nil
}

// spanExporter logs spans that were not taken.
type spanExporter struct {
	trace.SpanExporter
	environment *environment
	log         *sampledlog.Log
}

// ExportSpans implements [trace.SpanExporter].
func (e spanExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn(ctx, "the collector did not take spans; see OTEL_EXPORTER_OTLP_ENDPOINT", e.environment.redact(err))
	}
	return nil
}

// Resource describes the program, by default as the service sluice.
func Resource(ctx context.Context) (*resource.Resource, error) {
	// The environment's attributes come last and override the others.
	r, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sluice")), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("otlp: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}
