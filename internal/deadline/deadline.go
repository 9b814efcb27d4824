// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package deadline makes the deadlines of calls whose callers never leave.
package deadline

import (
	"context"
	"sync/atomic"
	"time"
)

// parts is the number of parts of a timeout. Calls that begin within one part share a deadline
// and one timer, as a timer for each costs as much as a decision.
const parts = 64

// Shared makes the deadlines of calls that have the same timeout. The zero Shared is ready to
// use. It is safe for concurrent use.
type Shared struct{ current atomic.Pointer[period] }

// period is the time in which calls get one context.
type period struct {
	end time.Time       // later calls get another
	ctx context.Context //nolint:containedctx // made once for all of them
}

// Context returns a context for a call that begins now, which must be the machine's time. It
// ends after timeout, or up to 1/64 of it sooner, and is never cancelled.
func (s *Shared) Context(now time.Time, timeout time.Duration) context.Context {
	old := s.current.Load()
	if old != nil && now.Before(old.end) {
		return old.ctx
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(timeout))
	next := &period{end: now.Add(timeout / parts), ctx: ctx}
	if !s.current.CompareAndSwap(old, next) {
		// Another goroutine has just begun this period or a later one, which ends at most a
		// timeout from now.
		cancel()
		return s.current.Load().ctx
	}
	context.AfterFunc(ctx, cancel) // it ends by itself
	return ctx
}
