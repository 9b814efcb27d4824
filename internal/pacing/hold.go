// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Hold is the time that a call may spend waiting.
type Hold struct {
	end    time.Time // no wait lasts longer
	own    bool      // end is the deadline of the call's context
	onHold func(time.Duration)
}

// WaitError says that a wait was not started, as it would last longer than MaxWait
// or the call's own deadline.
type WaitError struct {
	Wait time.Duration // at least; 0 if the call did not get its turn
	Err  error         // context.DeadlineExceeded if the call's own deadline is too close, else nil
}

// Error says how long the wait would have been.
func (e *WaitError) Error() string { return fmt.Sprintf("pacing: a wait of %v is too long", e.Wait) }

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }

// Hold returns that of a call which begins now. OnHold, if not nil, is called
// before each wait, with how long it is at least.
func (s *Budgets) Hold(ctx context.Context, onHold func(time.Duration)) *Hold {
	h := &Hold{end: time.Now().Add(s.o.MaxWait), onHold: onHold}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(h.end) {
		h.end, h.own = deadline, true
	}
	return h
}

// End returns when the call may wait no longer.
func (h *Hold) End() time.Time { return h.end }

// exceeds returns an error if a wait until then would be too long.
func (h *Hold) exceeds(until, now time.Time) error {
	if !until.After(h.end) {
		return nil
	}
	return h.refuse(until.Sub(now))
}

func (h *Hold) refuse(wait time.Duration) error {
	e := &WaitError{Wait: wait}
	if h.own {
		e.Err = context.DeadlineExceeded
	}
	return e
}

// sleep waits until then, at most until h ends, or until woken.
func (h *Hold) sleep(ctx context.Context, until time.Time, woken <-chan struct{}) error {
	if until.After(h.end) {
		until = h.end
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-woken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reported calls onHold.
func (h *Hold) reported(wait time.Duration) {
	if h.onHold != nil && wait > 0 {
		h.onHold(wait)
	}
}

// Backoff returns how long to wait after the n-th answer to a call, and whether
// the call may be sent again: it was denied, and MaxRetries and h allow it.
func (b *Budget) Backoff(h *Hold, n int, s Statement) (time.Duration, bool) {
	if !s.Denied || n > b.o.MaxRetries {
		return 0, false
	}
	wait := backoff(n, min(s.Wait, b.o.MaxHold))
	return wait, !time.Now().Add(wait).After(h.end)
}

// backoff returns how long to wait after the n-th answer that denied: what the
// server asked for and up to an eighth more, or if it did not say, half a
// second doubled each time, and half of it left to chance.
func backoff(n int, asked time.Duration) time.Duration {
	const first, most = 500 * time.Millisecond, 30 * time.Second
	if asked > 0 {
		return asked + chance(max(asked/8, first/5))
	}
	d := min(first<<min(n-1, 10), most)
	return d/2 + chance(d/2)
}

// chance returns a random duration below d.
func chance(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d))) //nolint:gosec // it keeps no secret, it spreads load
}
