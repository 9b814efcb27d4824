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
	over time.Time // from here on requests are of another span
	end  time.Time
	done chan struct{} // closed at end
}

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
	return s.timed(ctx, t), func() {}
}

// timed returns ctx, which never ends by itself, with the Timeout.
func (s *Store) timed(ctx context.Context, t time.Time) bounded {
	return bounded{ctx, s.spans.of(t, s.options.Timeout)}
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

// of returns the span in which t is.
func (s *spans) of(t time.Time, timeout time.Duration) *span {
	old := s.current.Load()
	if old != nil && t.Before(old.over) {
		return old
	}
	n := &span{over: t.Add(timeout / spanParts), end: t.Add(timeout), done: make(chan struct{})}
	if !s.current.CompareAndSwap(old, n) {
		// Another has begun this one or a later: it ends no later than a Timeout
		// from when it began, which is now.
		return s.current.Load()
	}
	time.AfterFunc(timeout, func() { close(n.done) })
	return n
}

// patient is a context that ends about when a Timeout does.
type patient struct {
	context.Context //nolint:containedctx // it is one
}

// bounded is a context that never ends, but for the end of a span.
type bounded struct {
	context.Context //nolint:containedctx // it is one
	span            *span
}

// Deadline returns the span's end.
func (b bounded) Deadline() (time.Time, bool) { return b.span.end, true }

// Done returns what is closed at the span's end.
func (b bounded) Done() <-chan struct{} { return b.span.done }

// Err returns [context.DeadlineExceeded] once the span has ended.
func (b bounded) Err() error {
	select {
	case <-b.span.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
