// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice/internal/clock"
)

// Waiting bounds how long one call may wait.
type Waiting struct {
	end    time.Time // no wait lasts longer
	own    bool      // end is the deadline of the call's context
	onWait func(time.Duration)
	clock  clock.Clock
}

// WaitError is the error of a wait that was not started, as it would outlast MaxWait or the
// call's own deadline.
type WaitError struct {
	Wait time.Duration // at least; 0 if the call did not get its turn
	Err  error         // context.DeadlineExceeded if the call's own deadline is too close, else nil
}

// Error returns how long the wait would have been.
func (e *WaitError) Error() string { return fmt.Sprintf("pacing: a wait of %v is too long", e.Wait) }

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// Waiting returns the Waiting of a call that begins now. onHold, if not nil, is called before
// each wait with its least duration.
func (s *Budgets) Waiting(ctx context.Context, onHold func(time.Duration)) *Waiting {
	h := &Waiting{end: s.o.Now().Add(s.o.MaxWait), onWait: onHold, clock: s.o.clock()}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(h.end) {
		h.end, h.own = deadline, true
	}
	return h
}

// End returns the latest end of a wait.
func (h *Waiting) End() time.Time { return h.end }

func (h *Waiting) refuse(wait time.Duration) error {
	e := &WaitError{Wait: wait}
	if h.own {
		e.Err = context.DeadlineExceeded
	}
	return e
}

// sleep waits until that instant, the end of h, or until woken.
func (h *Waiting) sleep(ctx context.Context, until time.Time, woken <-chan struct{}) error {
	if until.After(h.end) {
		until = h.end
	}
	over, stop := h.clock.After(until.Sub(h.clock.Now()))
	defer stop()
	select {
	case <-over:
		return nil
	case <-woken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notify calls onWait.
func (h *Waiting) notify(wait time.Duration) {
	if h.onWait != nil && wait > 0 {
		h.onWait(wait)
	}
}

// Backoff returns how long to wait after the n-th answer to a call, and whether
// the call may be sent again: it was denied, and MaxRetries and h allow it.
func (b *Budget) Backoff(h *Waiting, n int, s Statement) (time.Duration, bool) {
	if !s.Denied || n > b.o.MaxRetries {
		return 0, false
	}
	wait := backoff(n, min(s.Wait, b.o.MaxRetryAfter))
	return wait, !b.o.Now().Add(wait).After(h.end)
}

// backoff returns how long to wait after the n-th denial: the time that the server asked for
// and up to an eighth more; without one, half a second doubled each time, half of it random.
func backoff(n int, asked time.Duration) time.Duration {
	const first, most = 500 * time.Millisecond, 30 * time.Second
	if asked > 0 {
		return asked + rand.N(max(asked/8, first/5)) //nolint:gosec // it guards no secret
	}
	return clock.Jitter(min(first<<min(n-1, 10), most))
}
