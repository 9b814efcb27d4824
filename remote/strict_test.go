// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// strict returns when its context ends, whatever the wrapped store does, but still waits for
// the late answer.
type strict struct {
	sluice.BatchStore
	slots sluice.SlotStore
}

// under runs do until it ends or ctx does. The context of do lasts longer.
func under(ctx context.Context, do func(context.Context)) (ended <-chan struct{}, err error) {
	inner := context.WithoutCancel(ctx)
	cancel := func() {}
	if at, ok := ctx.Deadline(); ok {
		inner, cancel = context.WithDeadline(inner, at.Add(bounds.DefaultLateTimeout))
	}
	over := make(chan struct{})
	go func() {
		defer cancel()
		do(inner)
		close(over)
	}()
	select {
	case <-over:
		return over, nil
	case <-ctx.Done():
		return over, ctx.Err()
	}
}

func (s strict) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	out := make([]sluice.Result, 1)
	err := s.decide(ctx, []sluice.Request{req}, out, func(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
		out[0].Decision, out[0].Err = s.BatchStore.Take(ctx, reqs[0])
		return nil
	})
	if err != nil {
		return sluice.Decision{}, err
	}
	return out[0].Decision, out[0].Err
}

func (s strict) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return s.decide(ctx, reqs, out, s.BatchStore.TakeBatch)
}

func (s strict) decide(ctx context.Context, reqs []sluice.Request, out []sluice.Result, by func(context.Context, []sluice.Request, []sluice.Result) error) error {
	mine, results := slices.Clone(reqs), make([]sluice.Result, len(reqs))
	for i := range mine {
		r := &mine[i]
		r.More = slices.Clone(r.More)
		if r.Outcomes != nil {
			r.Outcomes = new(make(sluice.Outcomes, len(*r.Outcomes)))
		}
		if r.Slot != nil {
			r.Slot = new(*r.Slot)
		}
	}
	var err error
	ended, left := under(ctx, func(ctx context.Context) { err = by(ctx, mine, results) })
	if left == nil {
		for i := range reqs {
			copy(reqs[i].Outcomes.All(), mine[i].Outcomes.All())
			if reqs[i].Slot != nil {
				*reqs[i].Slot = *mine[i].Slot
			}
		}
		copy(out, results)
		return err
	}
	for i := range out {
		out[i].Err = sluice.NewMaybeSentError(left, func(undo bool, heard func(sluice.Late)) {
			go func() {
				<-ended
				l := sluice.Late{Result: results[i]}
				if err != nil {
					l.Err = err
				}
				if back, ok := mine[i].Undo(l.Decision); ok && undo && l.Err == nil {
					_, failed := s.BatchStore.Take(context.WithoutCancel(ctx), back)
					l.Undone = failed == nil
				}
				heard(l)
			}()
		})
	}
	return nil
}

func (s strict) Slot(ctx context.Context, req sluice.SlotRequest) (d sluice.SlotDecision, err error) {
	var held sluice.SlotDecision
	var failed error
	ended, left := under(ctx, func(ctx context.Context) { held, failed = s.slots.Slot(ctx, req) })
	if left == nil {
		return held, failed
	}
	return d, sluice.NewMaybeSentError(left, func(_ bool, heard func(sluice.Late)) {
		go func() {
			<-ended
			heard(sluice.Late{Result: sluice.Result{Decision: sluice.Decision{Allowed: held.Allowed}, Err: failed}})
		}()
	})
}
