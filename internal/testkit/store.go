// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// Store passes requests on to the embedded Store and counts them. A test can delay them,
// make them fail, and replace their answers. It is safe for concurrent use if Before and
// After are.
type Store struct {
	sluice.Store // may be nil if Before fails every request

	// Before, if not nil, is called with every request before the embedded Store
	// decides it. If it returns an error, the whole call returns that and is not
	// passed on.
	Before func(context.Context, sluice.Request) error
	// After, if not nil, is called with every request that was passed on and its
	// result. If a batch failed, the result is the batch's error. An error of After
	// replaces the decision.
	After func(sluice.Request, sluice.Result) error

	calls, batches atomic.Int64
	asked          [16]atomic.Int64 // by operation
}

// Failing returns a Store that answers every request with err.
func Failing(err error) *Store {
	return &Store{Before: func(context.Context, sluice.Request) error { return err }}
}

// Calls returns the number of calls. A batch is one call.
func (s *Store) Calls() int64 { return s.calls.Load() }

// Batches returns the number of calls that were batches.
func (s *Store) Batches() int64 { return s.batches.Load() }

// Asked returns the number of requests with one of the operations, or of all requests if no
// operation is given.
func (s *Store) Asked(ops ...sluice.Op) (n int64) {
	for op := range s.asked {
		if len(ops) == 0 || slices.Contains(ops, sluice.Op(op)) {
			n += s.asked[op].Load()
		}
	}
	return n
}

// Take implements [sluice.Store].
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	s.calls.Add(1)
	if err := s.before(ctx, req); err != nil {
		return sluice.Decision{}, err
	}
	d, err := s.Store.Take(ctx, req)
	r := s.after(req, sluice.Result{Decision: d, Err: err})
	return r.Decision, r.Err
}

// TakeBatch implements [sluice.Store].
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	s.calls.Add(1)
	s.batches.Add(1)
	var failed error
	for _, req := range reqs {
		failed = cmp.Or(failed, s.before(ctx, req))
	}
	if failed != nil {
		return failed
	}
	err := sluice.TakeBatch(ctx, s.Store, reqs, out)
	for i, req := range reqs {
		if err != nil {
			s.after(req, sluice.Result{Err: err})
			continue
		}
		out[i] = s.after(req, out[i])
	}
	return err
}

func (s *Store) before(ctx context.Context, req sluice.Request) error {
	s.asked[min(int(req.Op), len(s.asked)-1)].Add(1)
	if s.Before == nil {
		return nil
	}
	return s.Before(ctx, req)
}

func (s *Store) after(req sluice.Request, r sluice.Result) sluice.Result {
	if s.After == nil {
		return r
	}
	if err := s.After(req, r); err != nil {
		return sluice.Result{Err: err}
	}
	return r
}
