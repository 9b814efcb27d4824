// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
)

// detached wraps a store that ignores its context, so that calls return when the context ends:
// each call has a goroutine. The caller bounds their number, as it counts a request as in
// flight until its late answer.
type detached struct {
	store sluice.Store
	slots sluice.SlotStore
	late  time.Duration // how long a call's context outlives its caller
}

// leaving is the outcome of a request whose caller may have left.
type leaving struct {
	undo  bool
	heard func(sluice.Late)
}

func (d *detached) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	mine := stores.Clone(&req) // it may be read and written after the caller has left
	var r sluice.Result
	err := d.run(ctx, func(ctx context.Context) {
		r.Decision, r.Err = d.store.Take(ctx, mine)
	}, func(ctx context.Context, undo bool) sluice.Late {
		l := sluice.Late{Result: r}
		if back, ok := mine.Undo(r.Decision); ok && undo && r.Err == nil {
			ctx, cancel := context.WithTimeout(ctx, d.late)
			defer cancel()
			_, err := d.store.Take(ctx, back)
			l.Undone = err == nil
		}
		return l
	})
	if err != nil {
		return sluice.Decision{}, err
	}
	stores.Fill(&req, &mine)
	return r.Decision, r.Err
}

func (d *detached) Slot(ctx context.Context, req sluice.SlotRequest) (held sluice.SlotDecision, err error) {
	var r sluice.SlotDecision
	var failed error
	if err = d.run(ctx, func(ctx context.Context) {
		r, failed = d.slots.Slot(ctx, req)
	}, func(ctx context.Context, undo bool) sluice.Late {
		l := sluice.Late{Result: sluice.Result{Decision: sluice.Decision{Allowed: r.Allowed}, Err: failed}}
		if undo && r.Allowed && failed == nil && req.Op == sluice.SlotAcquire {
			ctx, cancel := context.WithTimeout(ctx, d.late)
			defer cancel()
			req.Op = sluice.SlotRelease
			_, err := d.slots.Slot(ctx, req)
			l.Undone = err == nil
		}
		return l
	}); err != nil {
		return held, err
	}
	return r, failed
}

// run returns nil when ask has returned. If ctx ends before, it returns a
// [*sluice.MaybeSentError] with late as its source of the outcome: late gives the units back
// if the caller wants that.
func (d *detached) run(ctx context.Context, ask func(context.Context), late func(ctx context.Context, undo bool) sluice.Late) error {
	if err := ctx.Err(); err != nil {
		return &sluice.NotSentError{Err: err}
	}
	inner := context.WithoutCancel(ctx)
	cancel := context.CancelFunc(func() {})
	if at, ok := ctx.Deadline(); ok {
		inner, cancel = context.WithDeadline(inner, at.Add(d.late))
	}
	var over atomic.Bool
	done, reported := make(chan struct{}), make(chan leaving, 1)
	go func() {
		defer cancel()
		if ask(inner); !over.Swap(true) {
			close(done)
			return
		}
		f := <-reported
		f.heard(late(context.WithoutCancel(inner), f.undo))
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	if over.Swap(true) {
		<-done // it has just answered
		return nil
	}
	return sluice.NewMaybeSentError(ctx.Err(), func(undo bool, heard func(sluice.Late)) { reported <- leaving{undo, heard} })
}
