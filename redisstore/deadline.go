// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

// spanParts is the number of spans in a Timeout. Requests of one span share an end and
// one timer, as a timer for each costs as much as its decision.
const spanParts = 64

// spans hands out ends of requests. The zero value is ready to use.
type spans struct{ current atomic.Pointer[span] }

// span is a short time. Its requests all end with one context.
type span struct {
	over time.Time       // end of the span: later requests get another
	ctx  context.Context //nolint:containedctx // made once for all of them
}

// bound returns a context that ends after the Timeout of the options, or up to
// 1/spanParts of it sooner. The client gets only such contexts.
func (s *Store) bound() context.Context { return s.spans.of(now(), s.options.Timeout) }

// slack returns the time by which a request may be cancelled before its Timeout because it
// shares a call with others.
func (s *Store) slack() time.Duration { return s.options.Timeout / 16 }

// recent reports whether a context of the store's own has about as much time left as one
// made now, so that its request may be sent with others.
func (s *Store) recent(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && end.Sub(now()) >= s.options.Timeout-s.slack()
}

// of returns the context of the span that contains t.
func (s *spans) of(t time.Time, timeout time.Duration) context.Context {
	old := s.current.Load()
	if old != nil && t.Before(old.over) {
		return old.ctx
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.Add(timeout))
	n := &span{over: t.Add(timeout / spanParts), ctx: ctx}
	if !s.current.CompareAndSwap(old, n) {
		// Another goroutine has just begun this span or a later one, which ends at
		// most a Timeout from now.
		cancel()
		return s.current.Load().ctx
	}
	context.AfterFunc(ctx, cancel) // it ends by itself
	return n.ctx
}
