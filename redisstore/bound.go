// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

// spanParts is in how many spans a Timeout is cut. Requests of one span share
// an end, and so one timer: a timer for each costs as much as its decision.
const spanParts = 64

// spans hands out ends of requests. The zero value is ready to use.
type spans struct{ current atomic.Pointer[span] }

// span is a short time whose requests all end at end.
type span struct {
	over time.Time       // from here on requests are of another span
	ctx  context.Context //nolint:containedctx // a bounded one, made once for all of them
}

// bounded and patient are contexts of the store's own, of which a caller's is no
// part: one that ends with a span, and one that ends about when a Timeout does.
type (
	bounded struct{ context.Context } //nolint:containedctx // it is one
	patient struct{ context.Context } //nolint:containedctx // it is one
)

// bound returns ctx with the Timeout of the options, less up to 1/spanParts of
// it.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	t := now()
	if d, ok := ctx.Deadline(); ok && d.Before(t.Add(s.options.Timeout)) {
		return ctx, func() {}
	}
	if ctx.Done() != nil {
		return context.WithTimeout(ctx, s.options.Timeout)
	}
	return s.spans.of(t, s.options.Timeout), func() {}
}

// until returns ctx, which never ends by itself, with a deadline.
func (s *Store) until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	if deadline.Sub(now()) >= s.options.Timeout-s.slack() {
		return patient{ctx}, cancel
	}
	return ctx, cancel
}

// slack is how much sooner than its Timeout a request may be given up, for what
// it shares with others.
func (s *Store) slack() time.Duration { return s.options.Timeout / 16 }

// of returns the context of the span in which t is.
func (s *spans) of(t time.Time, timeout time.Duration) context.Context {
	old := s.current.Load()
	if old != nil && t.Before(old.over) {
		return old.ctx
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.Add(timeout))
	n := &span{over: t.Add(timeout / spanParts), ctx: bounded{ctx}}
	if !s.current.CompareAndSwap(old, n) {
		// Another has begun this one or a later: it ends no later than a Timeout
		// from when it began, which is now.
		cancel()
		return s.current.Load().ctx
	}
	context.AfterFunc(ctx, cancel) // it ends by itself
	return n.ctx
}
