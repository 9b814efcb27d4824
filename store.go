// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Store decides requests. Each decision is atomic: concurrent requests have
// the outcome of some serial order. A Store is safe for concurrent use.
//
// Take returns when ctx ends, or sooner. An error means that no decision was
// made, and says what may have been spent:
//   - a [*RequestError]: nothing, as the request is not valid;
//   - a [*NotSentError]: nothing, now or later;
//   - a [*MaybeSentError]: perhaps the request's units, now or later. The caller
//     says by it whether the store shall give them back;
//   - any other: perhaps the request's units, and the store has no more to say.
//
// When Take has returned the store no longer uses the memory that req refers to.
type Store interface {
	// Take decides a Request and carries it out.
	Take(ctx context.Context, req Request) (Decision, error)
}

// BatchStore is a [Store] that decides several requests for less than as many
// calls cost.
type BatchStore interface {
	Store
	// TakeBatch decides independent requests in order, each by itself, and
	// fills out, which must be as long as reqs. Its error means that none was
	// decided or sent; one request's error is in its Result, and as Take's.
	TakeBatch(ctx context.Context, reqs []Request, out []Result) error
}

// TakeBatch decides independent requests in order, each by itself, and fills
// out, which must be as long as reqs: in one call if store is a [BatchStore], or
// else in one call each. Its error means that none was decided or sent.
func TakeBatch(ctx context.Context, store Store, reqs []Request, out []Result) error {
	if s, ok := store.(BatchStore); ok {
		return s.TakeBatch(ctx, reqs, out)
	}
	if len(out) != len(reqs) {
		return &RequestError{"Results", fmt.Sprintf("room for %d of %d requests", len(out), len(reqs))}
	}
	for i := range reqs {
		out[i].Decision, out[i].Err = store.Take(ctx, reqs[i])
	}
	return nil
}

// DirectStore is an optional interface of a [Store] that decides a take of one charge in
// fewer steps than its Take. A [Limiter] uses it: with memstore a take costs two thirds.
type DirectStore interface {
	Store
	// Direct returns the OneTaker of s. It returns nil unless s is the receiver: a type
	// that embeds a DirectStore and has a Take of its own has this method, too.
	Direct(s Store) OneTaker
}

// OneTaker decides takes of one charge.
type OneTaker interface {
	// TakeOne decides as Take of the Store decides a [Request] with this Charge and
	// nothing else.
	TakeOne(ctx context.Context, plan *Plan, key string, cost int64) (Decision, error)
}

// NotSentError is the error of a request that its store has not decided and
// never will: nothing is spent for it.
type NotSentError struct{ Err error }

// Error says why the request was not sent.
func (e *NotSentError) Error() string { return "not sent: " + e.Err.Error() }

// Unwrap returns why the request was not sent.
func (e *NotSentError) Unwrap() error { return e.Err }

// MaybeSentError is the error of a request that was on its way when its caller
// left, as the context or the store's own timeout had ended. The store goes on
// listening for the answer for a bounded time. The caller that does not call Keep
// or Undo lets the units that the request may have spent count.
type MaybeSentError struct {
	Err      error // why the caller left
	said     atomic.Bool
	reported func(undo bool, heard func(Late))
}

// Late is the outcome of a request after its caller had left.
type Late struct {
	// Result is the answer, or why there is none.
	Result
	// Undone says that what the answer had spent was given back.
	Undone bool
}

// NewMaybeSentError returns an error for a store's caller that has left for the
// reason err. The store's function reported is called at most once, by Keep or Undo;
// it must not block, and calls heard once when the answer is there, or when the
// store no longer listens for it.
func NewMaybeSentError(err error, reported func(undo bool, heard func(Late))) *MaybeSentError {
	return &MaybeSentError{Err: err, reported: reported}
}

// Error says why the caller left.
func (e *MaybeSentError) Error() string { return "maybe sent: " + e.Err.Error() }

// Unwrap returns why the caller left.
func (e *MaybeSentError) Unwrap() error { return e.Err }

// Keep says that the request took place, so that what it may have spent counts.
// heard, if not nil, is called once the answer is there, by a goroutine of the
// store; it must return quickly. Neither blocks. What is said first, by Keep or
// Undo, holds; after that heard is not called.
func (e *MaybeSentError) Keep(heard func(Late)) { e.end(false, heard) }

// Undo says that the request did not take place: the store gives back what it
// turns out to have spent, as a refund does; what has refilled by then, and what
// an OpCharge has recorded, stays. See Keep for heard.
func (e *MaybeSentError) Undo(heard func(Late)) { e.end(true, heard) }

func (e *MaybeSentError) end(undo bool, heard func(Late)) {
	if e.said.Swap(true) {
		return
	}
	if heard == nil {
		heard = func(Late) {}
	}
	if e.reported == nil { // made by no store: none listens
		heard(Late{Result: Result{Err: e.Err}})
		return
	}
	e.reported(undo, heard)
}

// ErrClosed is what a closed Store answers.
var ErrClosed = errors.New("sluice: store is closed")
