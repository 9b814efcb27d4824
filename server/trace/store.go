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

// Wrap returns a Store that asks inner, with a span for each call that belongs to a
// request which has one; a [sluice.SlotStore] if inner is one.
func (t *Tracer) Wrap(inner sluice.Store, name string) sluice.Store {
	if t == nil {
		return inner
	}
	s := &store{inner, t.tracer, attribute.String("sluice.store", name)}
	if _, ok := inner.(sluice.SlotStore); ok {
		return slotStore{s}
	}
	return s
}

type store struct {
	inner  sluice.Store
	tracer oteltrace.Tracer
	name   attribute.KeyValue
}

// begin begins the span of a call, if its request has one. What returns ends it.
func (s *store) begin(ctx context.Context, op string, about ...attribute.KeyValue) (context.Context, func(error)) {
	if !oteltrace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(error) {}
	}
	ctx, span := s.tracer.Start(ctx, op, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(append(about, s.name)...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "the store did not decide") // its words are for the log, as they may name users
		}
		span.End()
	}
}

// Take is of [sluice.Store].
func (s *store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	ctx, end := s.begin(ctx, req.Op.String(), attribute.Int("sluice.charges", 1+len(req.More)))
	d, err := s.inner.Take(ctx, req)
	end(err)
	return d, err
}

// TakeBatch is of [sluice.BatchStore].
func (s *store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	ctx, end := s.begin(ctx, "batch", attribute.Int("sluice.requests", len(reqs)))
	err := sluice.TakeBatch(ctx, s.inner, reqs, out)
	failed := err
	for i := range out {
		if failed == nil {
			failed = out[i].Err
		}
	}
	end(failed)
	return err
}

// slotStore is a store that keeps slots.
type slotStore struct{ *store }

// Slot is of [sluice.SlotStore].
func (s slotStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	ctx, end := s.begin(ctx, "slot")
	d, err := sluice.PassSlot(ctx, s.inner, req)
	end(err)
	return d, err
}
