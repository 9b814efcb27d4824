// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// nearStore is a near in front of a store. It is a store itself.
type nearStore struct {
	*near
	behind sluice.Store
}

var (
	_ sluice.BatchStore = (*nearStore)(nil)
	_ sluice.SlotStore  = (*nearStore)(nil)
	_ asker             = (*nearStore)(nil)
)

func newNearStore(behind sluice.Store, o Options) *nearStore {
	s := &nearStore{behind: behind}
	s.near = newNear(o, s)
	return s
}

func (s *nearStore) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	return s.take(ctx, &req)
}

func (s *nearStore) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if err := stores.ValidateBatch(reqs, out); err != nil {
		return err
	}
	var valid []sluice.Request
	var index []int
	for i := range reqs {
		out[i] = sluice.Result{Err: reqs[i].Validate()}
		if out[i].Err == nil {
			valid, index = append(valid, reqs[i]), append(index, i)
		}
	}
	results := make([]sluice.Result, len(valid))
	for i := range results {
		results[i].Decision.Allowed = true // left over
	}
	if err := s.takeBatch(ctx, valid, results); err != nil {
		return err
	}
	for i, at := range index {
		out[at] = results[i]
	}
	return nil
}

func (s *nearStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	return stores.Slot(ctx, s.behind, req)
}

func (s *nearStore) ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	return s.behind.Take(ctx, *req)
}

func (s *nearStore) bound(ctx context.Context) context.Context { return ctx }

func (s *nearStore) askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return sluice.TakeBatch(ctx, s.behind, reqs, out)
}

// denials and leases return the statistics of the near.
func (s *nearStore) denials() denialStats {
	d, _ := s.stats()
	return d
}

func (s *nearStore) leases() LeaseStats {
	_, l := s.stats()
	return l
}

// cached is a near in front of a store, both on one clock.
type cached struct {
	clock *testkit.Clock
	store *testkit.Store
	cache *nearStore
}

func newCached(opts Options) *cached {
	w := &cached{clock: testkit.NewClock()}
	w.store = &testkit.Store{Store: memstore.New(memstore.Options{MaxKeys: 10_000, Now: w.clock.Now})}
	opts.Now = w.clock.Now
	w.cache = newNearStore(w.store, opts)
	return w
}
