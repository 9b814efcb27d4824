// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"slices"
	"time"
)

// undoTimeout bounds the refund of a caller that is gone.
const undoTimeout = time.Second

// Await blocks for the Delay of a decision on req. If ctx ends before, what the
// decision spent is given back to the store, so that the caller's place in the
// queue does not stay taken. The error is ctx's then, joined by the store's if
// that could not take the units back.
func Await(ctx context.Context, store Store, req Request, d Decision) error {
	if d.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	}
	undo, ok := req.Undo(d)
	if !ok {
		return ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if _, err := store.Take(within, undo); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}

// Undo returns the request that gives back all that d has spent for r. It is
// not ok if there is nothing to give back: d is a denial, or r no take. What
// OpTakeUpTo got for a first charge of cost 0 is not known, and stays spent.
func (r *Request) Undo(d Decision) (undo Request, ok bool) {
	if !d.Allowed || d.Spent <= 0 && len(r.More) == 0 {
		return Request{}, false
	}
	undo = Request{Op: OpRefund, Charge: r.Charge, More: r.More, At: d.At, Due: d.Due}
	switch r.Op {
	case OpTake, OpReserve:
		return undo, true
	case OpTakeUpTo:
		// Every charge of a cost got as many units as the first.
		undo.Cost, undo.More = d.Spent, slices.Clone(r.More)
		for i := range undo.More {
			undo.More[i].Cost = min(undo.More[i].Cost, d.Spent)
		}
		return undo, d.Spent > 0
	default: // OpCharge spends what has been used already, the others nothing
		return Request{}, false
	}
}
