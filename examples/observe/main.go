// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command observe logs denials by log/slog and makes a span of OpenTelemetry of each
// decision, both by sluice.Observe.
//
//	go -C examples run ./observe
package main

import (
	"context"
	"log"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// logged logs what the store denies, and what it cannot decide. A key is not logged: it
// may be an address or a name.
func logged(store sluice.Store, logger *slog.Logger) sluice.Store {
	return sluice.Observe(store, sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			return ctx, func(d sluice.Decision, err error) {
				scope := slog.String("scope", req.Plan.Scope())
				switch {
				case err != nil:
					logger.LogAttrs(ctx, slog.LevelError, "no decision", scope, slog.Any("error", err))
				case !d.Allowed:
					logger.LogAttrs(ctx, slog.LevelInfo, "denied", scope, slog.Duration("retry_after", d.RetryAfter))
				}
			}
		},
	})
}

// traced makes a span of each decision. A store on Redis is asked within that span.
func traced(store sluice.Store, tracer trace.Tracer) sluice.Store {
	return sluice.Observe(store, sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			ctx, span := tracer.Start(ctx, "sluice "+req.Op.String(),
				trace.WithAttributes(attribute.String("sluice.scope", req.Plan.Scope()), attribute.Int64("sluice.cost", req.Cost)))
			return ctx, func(d sluice.Decision, err error) {
				defer span.End()
				if err != nil {
					span.SetStatus(codes.Error, err.Error())
					return
				}
				span.SetAttributes(attribute.Bool("sluice.allowed", d.Allowed), attribute.Int64("sluice.remaining", d.Remaining))
			}
		},
	})
}

func main() {
	store := logged(traced(memstore.New(memstore.Options{}), otel.Tracer("login")), slog.Default())
	logins, err := sluice.New(store, "login", sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, err := logins.Allow(context.Background(), "ann"); err != nil {
			log.Fatal(err)
		}
	}
}
