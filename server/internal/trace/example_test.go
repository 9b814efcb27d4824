// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// A span for each take, in a program with its own OpenTelemetry.
func Example_observe() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tracer := provider.Tracer("limits")
	store := sluice.Observe(memstore.New(memstore.Options{}), sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			ctx, span := tracer.Start(ctx, req.Op.String()+" "+req.Plan.Scope())
			return ctx, func(d sluice.Decision, err error) {
				if err != nil {
					span.RecordError(err)
				} else {
					span.SetAttributes(attribute.Bool("allowed", d.Allowed))
				}
				span.End()
			}
		},
	})
	login, err := sluice.New(store, "login", sluice.PerMinute(1))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if _, err := login.Take(context.Background(), "ann", 1); err != nil {
			log.Fatal(err)
		}
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Attributes[0].Key, s.Attributes[0].Value.AsBool())
	}
	// Output:
	// take login allowed true
	// take login allowed false
}
