// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/spec"
	"github.com/sluicegate/sluice/memstore"
)

// inMemory is a memstore with a clock that the test sets.
type inMemory struct {
	*memstore.Store
	micros *atomic.Int64
}

func (s inMemory) Set(micros int64) { s.micros.Store(micros) }

func newInMemory(maxKeys int) inMemory {
	micros := new(atomic.Int64)
	return inMemory{
		Store: memstore.New(memstore.Options{
			MaxKeys: maxKeys,
			Now:     func() time.Time { return time.UnixMicro(micros.Load()) },
		}),
		micros: micros,
	}
}

func open(testing.TB) spec.Store { return newInMemory(1 << 14) }

// batched decides each request by a TakeBatch of its own.
type batched struct{ inMemory }

func openBatched(testing.TB) spec.Store { return batched{newInMemory(1 << 14)} }

func (s batched) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	var out [1]sluice.Result
	if err := s.TakeBatch(ctx, []sluice.Request{req}, out[:]); err != nil {
		return sluice.Decision{}, err
	}
	return out[0].Decision, out[0].Err
}

// restored continues in a new memstore every few requests, with a snapshot of the one before.
type restored struct {
	inMemory
	t     testing.TB
	had   int // requests
	every int
}

func openRestored(t testing.TB) spec.Store { return &restored{newInMemory(1 << 12), t, 0, 2} }

func openRestoredNowAndThen(t testing.TB) spec.Store {
	return &restored{newInMemory(1 << 12), t, 0, 11}
}

func (s *restored) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if s.had++; s.had%s.every == 0 {
		var b bytes.Buffer
		if err := s.Snapshot(&b); err != nil {
			s.t.Fatal(err)
		}
		next := newInMemory(1 << 12)
		next.Set(s.micros.Load())
		if err := next.Restore(&b); err != nil {
			s.t.Fatal(err)
		}
		s.inMemory = next
	}
	return s.Store.Take(ctx, req)
}
