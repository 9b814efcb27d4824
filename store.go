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
// Take returns at the latest when ctx ends. An error means that there is no decision. Its
// type tells which units may have been spent:
//   - [*RequestError]: none, as the request is not valid;
//   - [*NotSentError]: none, now or later;
//   - [*MaybeSentError]: perhaps the request's, now or later. The caller decides by its
//     methods whether the store gives them back;
//   - any other error: perhaps the request's. The store will not learn more.
//
// After Take has returned, the store does not use memory that req refers to.
type Store interface {
	// Take decides a Request and carries it out.
	Take(ctx context.Context, req Request) (Decision, error)
}

// BatchStore is a [Store] that decides several requests at less cost than that of as many
// calls.
type BatchStore interface {
	Store
	// TakeBatch decides independent requests in order, each by itself, and fills out,
	// which must be as long as reqs. Its error means that none was decided or sent. The
	// error of one request is in its Result, of the types that Take returns.
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
	// Direct returns a function that decides as Take of s decides a [Request] with this
	// Charge and nothing else. It returns nil unless s is the receiver: a type that embeds a
	// DirectStore and has a Take of its own has this method, too.
	Direct(s Store) func(ctx context.Context, plan *Plan, key string, cost int64) (Decision, error)
}

// NotSentError is the error of a request that its store has not decided and
// never will: nothing is spent for it.
type NotSentError struct{ Err error }

// Error says why the request was not sent.
func (e *NotSentError) Error() string { return "not sent: " + e.Err.Error() }

// Unwrap returns why the request was not sent.
func (e *NotSentError) Unwrap() error { return e.Err }

// MaybeSentError is the error of a request that may have been sent when its context, or the
// store's own timeout, ended. The store listens for the answer for a bounded time. Units
// that the request has spent stay spent unless the caller calls Undo.
type MaybeSentError struct {
	Err      error // the cause: of the context, or of the timeout
	said     atomic.Bool
	reported func(undo bool, heard func(Late))
}

// Late is the outcome of a request that was learned after its caller had left.
type Late struct {
	// Result is the answer, or why there is none.
	Result
	// Undone says that the store has given the spent units back.
	Undone bool
}

// NewMaybeSentError returns the error of a store for a caller that left because of err. Keep
// and Undo call the store's function reported, at most once in all. It must not block. It
// calls heard once: with the answer, or when the store no longer listens for it.
func NewMaybeSentError(err error, reported func(undo bool, heard func(Late))) *MaybeSentError {
	return &MaybeSentError{Err: err, reported: reported}
}

// Error returns the text of the cause.
func (e *MaybeSentError) Error() string { return "maybe sent: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MaybeSentError) Unwrap() error { return e.Err }

// Keep lets the units that the request may have spent count. A goroutine of the store calls
// heard, if not nil, with the answer; it must return quickly. Keep does not block. The first
// call of Keep or Undo decides; later ones do nothing, and their heard is not called.
func (e *MaybeSentError) Keep(heard func(Late)) { e.end(false, heard) }

// Undo has the store give back the units that the request turns out to have spent, as a
// refund does: units that have refilled by then, and those that an OpCharge recorded,
// stay. See Keep for heard.
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

// ErrClosed is the error of a closed Store.
var ErrClosed = errors.New("sluice: store is closed")
