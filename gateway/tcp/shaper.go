// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/sampledlog"
)

var errShape = errors.New("tcp: bytes do not fit in time")

// shaper holds bytes back until the limits have them.
type shaper struct {
	store    sluice.Store
	plan     *sluice.Plan
	chunk    int // most bytes at once
	maxDelay time.Duration
	timeout  time.Duration
	closed   bool // an error of the store ends the connection
}

// newShaper chooses a chunk of what the limits grant in a tenth of a second, so
// that connections of one key take turns, but not so small that each costs
// more to decide than to send.
func newShaper(o *Options, l *Limits) *shaper {
	chunk := int64(largest)
	for t := range eachTerm(l.Bytes) {
		tenth := int64(float64(t.Quota) * float64(100*time.Millisecond) / float64(t.Window))
		chunk = min(chunk, max(tenth, 1024), t.Full())
	}
	return &shaper{
		store: o.Store, plan: l.Bytes, chunk: int(chunk),
		maxDelay: o.MaxDelay, timeout: o.DecisionTimeout, closed: l.FailClosed,
	}
}

// wait blocks until n bytes of key fit, in the order in which they came.
func (s *shaper) wait(ctx context.Context, log *sampledlog.Log, key string, n int64) error {
	charge := sluice.Charge{Plan: s.plan, Key: key, Cost: n}
	d, err := s.take(ctx, sluice.Request{Op: sluice.OpReserve, Charge: charge, MaxWait: s.maxDelay})
	if err != nil {
		log.Warn(ctx, "bytes not decided", err)
		if s.closed {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		return ctx.Err()
	}
	if !d.Allowed {
		return fmt.Errorf("%w: the limit %q has none for %v", errShape, s.plan.Term(d.Binding).Name, d.RetryAfter)
	}
	if d.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		undo := sluice.Request{Op: sluice.OpRefund, Charge: charge, At: d.At, Due: d.Due}
		if _, err := s.take(context.WithoutCancel(ctx), undo); err != nil {
			log.Warn(ctx, "bytes not refunded", err)
		}
		return ctx.Err()
	}
}

func (s *shaper) take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.store.Take(ctx, req)
}
