// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func newLogger(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestDenialIsLogged: one of three log-ins, without its key.
func TestDenialIsLogged(t *testing.T) {
	var lines bytes.Buffer
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	store := logged(memstore.New(memstore.Options{Now: func() time.Time { return now }}), newLogger(&lines))
	logins := sluice.Must(sluice.New(store, "login", sluice.PerMinute(2)))
	for range 3 {
		if _, err := logins.Allow(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := lines.String(), "level=INFO msg=denied scope=login retry_after=30s\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// broken is a store that cannot decide, and keeps with which context it was asked.
type broken struct {
	sluice.Store
	span trace.SpanContext
}

var errBroken = errors.New("broken")

func (b *broken) Take(ctx context.Context, _ sluice.Request) (sluice.Decision, error) {
	b.span = trace.SpanContextFromContext(ctx)
	return sluice.Decision{}, errBroken
}

// TestErrors: the log and the span have the error, and the store is asked within the span.
func TestErrors(t *testing.T) {
	var lines bytes.Buffer
	var inner broken
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	logins := sluice.Must(sluice.New(logged(traced(&inner, tracer), newLogger(&lines)), "login", sluice.PerMinute(2)))
	if _, err := logins.Allow(t.Context(), "ann"); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if got, want := lines.String(), "level=ERROR msg=\"no decision\" scope=login error=broken\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
	spans := recorder.Ended()
	if len(spans) != 1 || spans[0].Status().Code != codes.Error || spans[0].Status().Description != "broken" {
		t.Fatalf("spans %v", spans)
	}
	if spans[0].SpanContext().SpanID() != inner.span.SpanID() {
		t.Error("the store is not asked within the span")
	}
}

// TestSpans: one of each decision, within that of the caller.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	logins := sluice.Must(sluice.New(traced(memstore.New(memstore.Options{}), tracer), "login", sluice.PerMinute(1)))
	ctx, parent := tracer.Start(t.Context(), "request")
	for range 2 {
		if _, err := logins.Allow(ctx, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	spans := recorder.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	for i, allowed := range []bool{true, false} {
		want := attribute.NewSet(attribute.String("sluice.scope", "login"), attribute.Int64("sluice.cost", 1),
			attribute.Bool("sluice.allowed", allowed), attribute.Int64("sluice.remaining", 0))
		if got := attribute.NewSet(spans[i].Attributes()...); !got.Equals(&want) || spans[i].Name() != "sluice take" {
			t.Errorf("span %q of %v, want %v", spans[i].Name(), got.ToSlice(), want.ToSlice())
		}
		if spans[i].Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Error("the span is not within the caller's")
		}
	}
}
