// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// detached makes of a store that ignores its context one that returns when that
// ends: each of its calls has a goroutine. How many there are its caller bounds:
// it counts a request as under way until it is heard of.
type detached struct {
	store sluice.Store
	slots sluice.SlotStore
	late  time.Duration // for how long after its caller a call has a context
}

// errand is a call of the store behind. It has copies of its requests, as it may
// read and write them after the caller has left.
type errand struct {
	*detached
	do    func(context.Context, *errand)
	reqs  []sluice.Request
	out   []sluice.Result
	held  sluice.SlotDecision
	err   error // of all of them
	over  atomic.Bool
	done  chan struct{}
	fates []chan fate // of each request, once the caller has left
}

// fate is what a caller that has left says of its request.
type fate struct {
	undo  bool
	heard func(sluice.Late)
}

func (d *detached) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	e := d.errand([]sluice.Request{req}, func(ctx context.Context, e *errand) {
		e.out[0].Decision, e.out[0].Err = d.store.Take(ctx, e.reqs[0])
	})
	if err := e.run(ctx); err != nil {
		return sluice.Decision{}, e.left(0, err)
	}
	e.answer(0, &req)
	return e.out[0].Decision, e.out[0].Err
}

func (d *detached) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	e := d.errand(reqs, func(ctx context.Context, e *errand) {
		e.err = sluice.TakeBatch(ctx, d.store, e.reqs, e.out)
	})
	if err := e.run(ctx); err != nil {
		for i := range out {
			out[i] = sluice.Result{Err: e.left(i, err)}
		}
		return nil
	}
	for i := range reqs {
		e.answer(i, &reqs[i])
	}
	copy(out, e.out)
	return e.err
}

func (d *detached) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	e := d.errand(make([]sluice.Request, 1), func(ctx context.Context, e *errand) {
		e.held, e.err = d.slots.Slot(ctx, req)
	})
	if err := e.run(ctx); err != nil {
		return sluice.SlotDecision{}, e.left(0, err)
	}
	return e.held, e.err
}

func (d *detached) errand(reqs []sluice.Request, do func(context.Context, *errand)) *errand {
	e := &errand{
		detached: d, do: do, reqs: slices.Clone(reqs), out: make([]sluice.Result, len(reqs)),
		done: make(chan struct{}), fates: make([]chan fate, len(reqs)),
	}
	for i := range e.reqs {
		r := &e.reqs[i]
		r.More = slices.Clone(r.More)
		if r.Outcomes != nil {
			r.Outcomes = new(make(sluice.Outcomes, len(*r.Outcomes)))
		}
		if r.Slot != nil {
			r.Slot = new(*r.Slot)
		}
		e.fates[i] = make(chan fate, 1)
	}
	return e
}

// answer gives the caller of the i-th request what was written into its copy.
func (e *errand) answer(i int, req *sluice.Request) {
	copy(req.Outcomes.All(), e.reqs[i].Outcomes.All())
	if req.Slot != nil {
		*req.Slot = *e.reqs[i].Slot
	}
}

// run returns nil when the store has answered, and why if ctx has ended before.
// Every request's fate must be told then.
func (e *errand) run(ctx context.Context) error {
	inner := context.WithoutCancel(ctx)
	cancel := context.CancelFunc(func() {})
	if at, ok := ctx.Deadline(); ok {
		inner, cancel = context.WithDeadline(inner, at.Add(e.late))
	}
	go func() {
		defer cancel()
		if e.do(inner, e); e.over.Swap(true) {
			e.settle(context.WithoutCancel(inner))
			return
		}
		close(e.done)
	}()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	if e.over.Swap(true) {
		<-e.done // it came just now
		return nil
	}
	return ctx.Err()
}

// left is the answer to the i-th request if its caller has left.
func (e *errand) left(i int, why error) error {
	return sluice.NewMaybeSentError(why, func(undo bool, heard func(sluice.Late)) { e.fates[i] <- fate{undo, heard} })
}

// settle gives back, in one call, what was spent for requests that did not take
// place, and tells their callers.
func (e *errand) settle(ctx context.Context) {
	fates, lates := make([]fate, len(e.reqs)), make([]sluice.Late, len(e.reqs))
	var undo []sluice.Request
	var index []int
	for i := range e.reqs {
		fates[i] = <-e.fates[i]
		if lates[i].Result = e.out[i]; e.err != nil {
			lates[i].Result = sluice.Result{Err: e.err}
		}
		if u, ok := e.reqs[i].Undo(lates[i].Decision); ok && fates[i].undo && lates[i].Err == nil {
			undo, index = append(undo, u), append(index, i)
		}
	}
	for j, err := range e.giveBack(ctx, undo) {
		lates[index[j]].Undone = err == nil
	}
	for i, f := range fates {
		f.heard(lates[i])
	}
}

func (e *errand) giveBack(ctx context.Context, undo []sluice.Request) []error {
	ctx, cancel := context.WithTimeout(ctx, e.late)
	defer cancel()
	errs, out := make([]error, len(undo)), make([]sluice.Result, len(undo))
	var err error
	switch len(undo) {
	case 0:
	case 1: // most are, and a store may gather those
		_, err = e.store.Take(ctx, undo[0])
	default:
		err = sluice.TakeBatch(ctx, e.store, undo, out)
	}
	for i := range errs {
		if errs[i] = err; err == nil {
			errs[i] = out[i].Err
		}
	}
	return errs
}
