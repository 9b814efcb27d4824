// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package trace sends spans of decisions and store operations to a collector of
// OpenTelemetry, where the standard variables of the environment ask for it:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT  where to, over HTTP
//	OTEL_TRACES_EXPORTER        otlp, or none
//	OTEL_TRACES_SAMPLER[_ARG]   which: by default those whose caller is traced, and those that have none
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES  whose they are
//	OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY
//	OTEL_BSP_*                  how many are sent at once, and how often
//
// A request that comes with a traceparent is a part of that trace. No key and nothing
// else that a client sent is in a span.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/policy"
)

const scope = "github.com/sluicegate/sluice"

// Tracer makes spans. A nil Tracer makes none, and costs nothing. It is safe for
// concurrent use, and waits for no collector: what that does not take is dropped.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	parent   propagation.TraceContext
}

// New returns a Tracer, nil if the environment asks for none. Log gets, at most once
// a second, of spans that the collector did not take. [Tracer.Close] must follow.
func New(ctx context.Context, log *slog.Logger) (*Tracer, error) {
	wanted, err := wanted()
	if err != nil || !wanted {
		return nil, err
	}
	at, err := newCollector()
	if err != nil {
		return nil, err
	}
	to, err := otlptrace.New(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	// What the environment says comes last, and holds.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sluice")), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace: OTEL_RESOURCE_ATTRIBUTES: %w", err), to.Shutdown(ctx))
	}
	reported := exporter{to, &sampledlog.Log{Logger: log, Part: "trace"}}
	t := &Tracer{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(reported), sdktrace.WithResource(about))}
	t.tracer = t.provider.Tracer(scope)
	return t, nil
}

// exporter reports spans that were not taken.
type exporter struct {
	sdktrace.SpanExporter
	log *sampledlog.Log
}

// ExportSpans is of [sdktrace.SpanExporter].
func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.Warn(ctx, "the collector did not take spans; see OTEL_EXPORTER_OTLP_ENDPOINT", err)
	}
	return nil
}

// wanted reports whether the environment asks for spans, and for such as there are.
func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); kind {
	case "":
		_, at := variable("ENDPOINT")
		return at != "", nil
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	default:
		return false, fmt.Errorf("trace: OTEL_TRACES_EXPORTER: %q cannot be had; use otlp or none", kind)
	}
}

// Close sends what is left. It ends with ctx.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("trace: close: %w", err)
	}
	return nil
}

// Handler returns a handler around one of package httplimit. It begins the span of a
// request's decision, which [Tracer.Decided] ends.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.tracer.Start(t.parent.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), "decide")
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		defer span.End() // where nothing was decided
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Decided ends the span of a request's decision. It fits OnDecision of
// [httplimit.Options].
func (t *Tracer) Decided(r *http.Request, e httplimit.Event) {
	if t == nil {
		return
	}
	span := oteltrace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("sluice.verdict", e.Verdict.String()))
	if e.Rule != nil {
		span.SetAttributes(attribute.String("sluice.rule", e.Rule.Name))
	}
	if e.Limit != nil {
		span.SetAttributes(attribute.String("sluice.limit", e.Limit.Name))
	}
	if e.Decision.Delay > 0 {
		span.SetAttributes(attribute.Float64("sluice.delay_seconds", e.Decision.Delay.Seconds()))
	}
	if e.Verdict == policy.FailedClosed || e.Verdict == policy.FailedOpen {
		span.SetStatus(codes.Error, "not decided by the limits")
	}
	span.End()
}
