// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/caller"
)

// deadline is the only time bound of a request: a context that ends with its caller's, or
// when the Timeout is over. Its timer is made when Done is first called: a store that
// answers at once needs none.
type deadline struct {
	context.Context //nolint:containedctx // a deadline is itself a context
	began, at       time.Time
	shared          bool // by callers that never leave: only its time ends it

	mu     sync.Mutex
	timed  context.Context //nolint:containedctx // made on demand
	cancel context.CancelFunc
	over   bool
}

// spanParts is the number of parts of a Timeout. Callers that never leave and begin within
// one part share a deadline, and so one timer.
const spanParts = 64

// deadlines returns shared deadlines. The zero value is ready to use.
type deadlines struct{ current atomic.Pointer[deadline] }

// bound returns ctx with the Timeout; end must follow.
func (s *Store) bound(ctx context.Context) context.Context {
	now := time.Now()
	if ctx == context.Background() {
		return s.deadlines.of(now, s.opts.Timeout)
	}
	d := &deadline{Context: ctx, began: now, at: now.Add(s.opts.Timeout)}
	if own, ok := ctx.Deadline(); ok && own.Before(d.at) {
		d.at = own
	}
	return d
}

// of returns a shared deadline, at most a part of the Timeout early.
func (s *deadlines) of(now time.Time, timeout time.Duration) *deadline {
	old := s.current.Load()
	if old != nil && now.Sub(old.began) < timeout/spanParts {
		return old
	}
	d := &deadline{Context: context.Background(), began: now, at: now.Add(timeout), shared: true}
	s.current.CompareAndSwap(old, d) // one that another caller has set first is as good
	return d
}

// end ends a context of bound and releases its timer.
func end(ctx context.Context) {
	d, _ := ctx.(*deadline)
	if d.shared {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.cancel != nil {
		d.cancel()
	}
}

// left reports whether the caller has left, or its own deadline has passed.
func (d *deadline) left() bool { return caller.Left(d.Context) != nil }

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} {
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

func (d *deadline) Err() error {
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
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return d.Context.Value(key)
}
