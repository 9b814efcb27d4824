// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// panicking is a store that panics in every counted call, and answers the others.
type panicking struct {
	*memstore.Store
	panics atomic.Bool
}

func (p *panicking) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if p.panics.Load() {
		panic("a defect of the store")
	}
	return p.Store.Take(ctx, req)
}

func (p *panicking) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if p.panics.Load() {
		panic("a defect of the store")
	}
	return p.Store.TakeBatch(ctx, reqs, out)
}

func (p *panicking) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if p.panics.Load() {
		panic("a defect of the store")
	}
	return p.Store.Slot(ctx, req)
}

var panicSlot = sluice.SlotRequest{Scope: "scope", Limit: sluice.SlotLimit{Name: "l", Cap: 1, TTL: time.Second}, Owner: "o", Cost: 1}

// recovered calls f and recovers from its panic, as a server does for handlers.
func recovered(f func()) {
	defer func() { _ = recover() }()
	f()
}

// TestPanicOfTheStoreIsAFailure: calls that panic are no longer in flight, and count as
// failures of the store.
func TestPanicOfTheStoreIsAFailure(t *testing.T) {
	take := sluice.Request{Charge: sluice.Charge{Plan: testkit.Plan(t, "scope", "10/s"), Cost: 1}}
	for name, call := range map[string]func(*remote.Store){
		"take": func(s *remote.Store) { _, _ = s.Take(context.Background(), take) },
		"batch": func(s *remote.Store) {
			_ = s.TakeBatch(context.Background(), []sluice.Request{take, take}, make([]sluice.Result, 2))
		},
		"slot": func(s *remote.Store) { _, _ = s.Slot(context.Background(), panicSlot) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &panicking{Store: memstore.New(memstore.Options{MaxKeys: 100})}
				p.panics.Store(true)
				s, err := remote.Wrap(p, remote.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for range bounds.DefaultFailures {
					recovered(func() { call(s) })
				}
				p.panics.Store(false) // before the first probe
				if st := s.Stats(); st.InFlight != 0 || st.Healthy {
					t.Errorf("%d calls in flight, healthy %v; want none and false", st.InFlight, st.Healthy)
				}
				time.Sleep(2 * bounds.DefaultProbe)
				synctest.Wait()
				if s.Err() != nil {
					t.Error("not healthy a second after the store's return")
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPanicOfAPolicyLeavesNothingInFlight: if the policy panics, the store learns that the
// request did not take place.
func TestPanicOfAPolicyLeavesNothingInFlight(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{
			PolicyOf:     func(*sluice.Plan) sluice.Failure { panic("a defect of the caller") },
			SlotPolicyOf: func(string) sluice.Failure { panic("a defect of the caller") },
		})
		defer end(t, f, s)
		f.set(tardy)
		p := testkit.Plan(t, "scope", "10/h sliding-log")
		req := sluice.Request{Charge: sluice.Charge{Plan: p, Cost: 1}}
		recovered(func() { _, _ = s.Take(context.Background(), req) })
		recovered(func() { _, _ = s.Slot(context.Background(), panicSlot) })
		f.set(none)
		time.Sleep(slowness)
		synctest.Wait()
		if st := s.Stats(); st.InFlight != 0 {
			t.Errorf("%d calls are in flight for ever", st.InFlight)
		}
	})
}
