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
	ctx  context.Context //nolint:containedctx // made once for all of them
}

// bound returns a context that ends with the Timeout of the options, or up to
// 1/spanParts of it sooner. The client is given no other.
func (s *Store) bound() context.Context { return s.spans.of(now(), s.options.Timeout) }

// slack is how much sooner than its Timeout a request may be cancelled, for what
// it shares with others.
func (s *Store) slack() time.Duration { return s.options.Timeout / 16 }

// recent reports whether a context of the store's own has about as much time left as
// one made now, so that what it is for may be sent with what others ask.
func (s *Store) recent(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && end.Sub(now()) >= s.options.Timeout-s.slack()
}

// of returns the context of the span in which t is.
func (s *spans) of(t time.Time, timeout time.Duration) context.Context {
	old := s.current.Load()
	if old != nil && t.Before(old.over) {
		return old.ctx
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.Add(timeout))
	n := &span{over: t.Add(timeout / spanParts), ctx: ctx}
	if !s.current.CompareAndSwap(old, n) {
		// Another has begun this one or a later: it ends no later than a Timeout
		// from when it began, which is now.
		cancel()
		return s.current.Load().ctx
	}
	context.AfterFunc(ctx, cancel) // it ends by itself
	return n.ctx
}
