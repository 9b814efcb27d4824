// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/caller"
)

// callDeadline is the only time bound of a request: a context that ends with its caller's, or
// when the Timeout is over. Its timer is made when Done is first called: a store that
// answers at once needs none.
type callDeadline struct {
	context.Context //nolint:containedctx // a deadline is itself a context
	at              time.Time

	mu     sync.Mutex
	timed  context.Context //nolint:containedctx // made on demand
	cancel context.CancelFunc
	over   bool
}

// bound returns ctx with the Timeout; end must follow.
func (s *Store) bound(ctx context.Context) context.Context {
	now := time.Now()
	if ctx == context.Background() {
		return s.deadlines.Context(now, s.opts.Timeout)
	}
	d := &callDeadline{Context: ctx, at: now.Add(s.opts.Timeout)}
	if own, ok := ctx.Deadline(); ok && own.Before(d.at) {
		d.at = own
	}
	return d
}

// end ends a context of bound and releases its timer, unless other calls share it.
func end(ctx context.Context) {
	d, ok := ctx.(*callDeadline)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.cancel != nil {
		d.cancel()
	}
}

// left reports whether the caller has left, or its own deadline has passed. Callers that share
// a deadline, for which d is nil, never leave.
func (d *callDeadline) left() bool { return d != nil && caller.Left(d.Context) != nil }

func (d *callDeadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *callDeadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(d.Context, d.at)
		if d.over {
			d.cancel()
		}
	}
	return d.timed.Done()
}

func (d *callDeadline) Err() error {
	d.mu.Lock()
	timed, over := d.timed, d.over
	d.mu.Unlock()
	var err error
	switch {
	case timed != nil:
		err = timed.Err()
	case over:
		err = context.Canceled
	default:
		err = d.Context.Err()
	}
	if err == nil && !time.Now().Before(d.at) { // the timer may be late
		err = context.DeadlineExceeded
	}
	return err
}

// Value returns the values of the timer's context, so that contexts derived from d follow it
// without a goroutine.
func (d *callDeadline) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return d.Context.Value(key)
}
