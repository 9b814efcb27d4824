// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice"
)

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
