// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package trace makes spans of decisions and store operations, and sends them to an
// OpenTelemetry collector if the standard environment variables ask for it: see package otlp.
// OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG choose the spans: by default those with a
// sampled parent or none.
//
// A request with a traceparent is part of that trace. Spans hold no keys and no other data
// from a client.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/otlp"
)

const scope = "github.com/sluicegate/sluice"

// Tracer makes spans. A nil Tracer makes none, and costs nothing. It is safe for concurrent
// use, and never waits for the collector: spans that are not taken are dropped.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	parent   propagation.TraceContext
}

// New returns a Tracer, or nil if the environment asks for none. Log receives failures of the
// collector, at most one a second. The caller must call [Tracer.Close].
func New(ctx context.Context, log *slog.Logger) (*Tracer, error) {
	to, err := otlp.Spans(ctx, log)
	if err != nil || to == nil {
		return nil, err
	}
	about, err := otlp.Resource(ctx)
	if err != nil {
		return nil, errors.Join(err, to.Shutdown(ctx))
	}
	t := &Tracer{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(to), sdktrace.WithResource(about))}
	t.tracer = t.provider.Tracer(scope)
	return t, nil
}

// Close sends the remaining spans. It returns when ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("trace: close: %w", err)
	}
	return nil
}

// Handler wraps a handler of package httplimit. It begins the span of a request's decision,
// which [Tracer.Record] ends.
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
		defer span.End() // if nothing was decided
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Record ends the span of a request's decision.
func (t *Tracer) Record(ctx context.Context, r *front.Record) {
	if t == nil || r.Ended {
		return
	}
	span := oteltrace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	e := &r.Event
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
	if e.Verdict == evaluate.FailedClosed || e.Verdict == evaluate.FailedOpen {
		span.SetStatus(codes.Error, "not decided by the limits")
	}
	span.End()
}

// Wrap returns a Store that calls inner, with a span for each call of a request that has one:
// see [sluice.Observe].
func (t *Tracer) Wrap(inner sluice.Store, name string) sluice.Store {
	if t == nil {
		return inner
	}
	s := storeSpans{t.tracer, attribute.String("sluice.store", name)}
	return sluice.Observe(inner, sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			ctx, span := s.begin(ctx, req.Op.String(), attribute.Int("sluice.charges", req.Charges()))
			if span == nil {
				return ctx, nil
			}
			return ctx, func(_ sluice.Decision, err error) { end(span, err) }
		},
		Batch: func(ctx context.Context, reqs []sluice.Request) (context.Context, func([]sluice.Result, error)) {
			ctx, span := s.begin(ctx, "batch", attribute.Int("sluice.requests", len(reqs)))
			if span == nil {
				return ctx, nil
			}
			return ctx, func(out []sluice.Result, failed error) {
				for i := range out {
					if failed == nil {
						failed = out[i].Err
					}
				}
				end(span, failed)
			}
		},
		Slot: func(ctx context.Context, _ *sluice.SlotRequest) (context.Context, func(sluice.SlotDecision, error)) {
			ctx, span := s.begin(ctx, "slot")
			if span == nil {
				return ctx, nil
			}
			return ctx, func(_ sluice.SlotDecision, err error) { end(span, err) }
		},
	})
}

// storeSpans makes the spans of a store.
type storeSpans struct {
	tracer oteltrace.Tracer
	name   attribute.KeyValue
}

// begin begins the span of a call, or returns nil if its request has none.
func (s storeSpans) begin(ctx context.Context, op string, about ...attribute.KeyValue) (context.Context, oteltrace.Span) {
	if !oteltrace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, op, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(append(about, s.name)...))
}

func end(span oteltrace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "the store did not decide") // the error's text is for the log only, as it may name users
	}
	span.End()
}
