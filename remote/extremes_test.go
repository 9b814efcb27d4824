// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// TestLargestOptions: the largest numbers are valid.
func TestLargestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		s := wrap(t, f, remote.Options{Failures: math.MaxInt})
		f.set(erring)
		req := sluice.Request{Charge: sluice.Charge{Plan: testkit.Plan(t, "scope", "10/s"), Cost: 1}}
		for range 100 {
			if _, err := s.Take(context.Background(), req); err != nil {
				t.Fatal(err)
			}
		}
		if s.Err() != nil {
			t.Error("marked down after 100 failures, of more than can be counted")
		}
		end(t, f, s)

		f = newFaulty()
		s = wrap(t, f, remote.Options{MaxInFlight: math.MaxInt, LateTimeout: math.MaxInt64, MaxOwed: math.MaxInt, MaxKeys: math.MaxInt})
		bring(t, f, s, erring)
		f.set(none)
		time.Sleep(2 * bounds.DefaultProbe)
		synctest.Wait()
		if s.Err() != nil {
			t.Error("not healthy a second after the store's return")
		}
		end(t, f, s)
	})
}

// TestReceiptOfAnother: without a local store, a receipt that is marked as local gives nothing
// back and has no other effect.
func TestReceiptOfAnother(t *testing.T) {
	s, err := remote.Wrap(memstore.New(memstore.Options{MaxKeys: 100}), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // never fails
	p := testkit.Plan(t, "scope", "10/s")
	for _, op := range []sluice.Op{sluice.OpRefund, sluice.OpReset, sluice.OpAdd} {
		d, err := s.Take(t.Context(), sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Cost: 1}, At: 1<<61 | 1})
		if err != nil || !d.Allowed || d.Spent != 0 {
			t.Errorf("%v: %+v, %v; want nothing given back", op, d, err)
		}
	}
}

// TestRemoteAroundRemote: a refund of the inner Store's decision is answered.
func TestRemoteAroundRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		inner := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		outer, err := remote.Wrap(inner, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		bring(t, f, inner, erring)
		l := testkit.Limiter(t, outer, "scope", "10/h sliding-log")
		d, err := l.Take(t.Context(), "key", 4)
		if err != nil || !d.Allowed || !d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err = l.Refund(t.Context(), "key", 4, d); err != nil {
			t.Errorf("refund: %+v, %v", d, err)
		}
		_ = outer.Close()
		end(t, f, inner)
	})
}

// TestMoreOutcomesThanLimits: Outcomes may be longer than the limits.
func TestMoreOutcomesThanLimits(t *testing.T) {
	s, err := remote.Wrap(memstore.New(memstore.Options{MaxKeys: 100}), remote.Options{
		Lease: func(*sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{TTL: time.Millisecond}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // never fails
	p := testkit.Plan(t, "scope", "a: 10/h sliding-log", "b: 20/h sliding-log")
	for i := range 15 {
		out := make(sluice.Outcomes, 5)
		d, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: p, Cost: 1}, Outcomes: &out})
		if err != nil || d.Allowed != (i < 10) {
			t.Fatalf("take %d: %+v, %v", i, d, err)
		}
	}
}

// TestBatchWithOneThatCannotBeLeased: while the store is unavailable the other requests of the
// batch are decided by their policy.
func TestBatchWithOneThatCannotBeLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		queue := testkit.Plan(t, "queue", "10/s leaky-bucket burst 5")
		s := wrap(t, f, remote.Options{Lease: func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{}, p == queue }})
		defer end(t, f, s)
		reqs := []sluice.Request{
			{Charge: sluice.Charge{Plan: queue, Cost: 1}},
			{Charge: sluice.Charge{Plan: testkit.Plan(t, "scope", "10/s"), Cost: 1}},
		}
		for _, broken := range []bool{false, true} {
			if broken {
				bring(t, f, s, erring)
			}
			out := make([]sluice.Result, 2)
			if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Err == nil || out[1].Err != nil || !out[1].Decision.Allowed {
				t.Errorf("broken %v: %+v; want an error for the first alone", broken, out)
			}
		}
	})
}

// TestCloseWithMuchToRelease: Close waits for one call, not for the release of every slot.
func TestCloseWithMuchToRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		s := wrap(t, f, remote.Options{})
		bring(t, f, s, erring)
		for i := range 100 {
			req := panicSlot
			req.Op, req.Owner, req.Limit.TTL = sluice.SlotRelease, fmt.Sprint(i), time.Hour
			if _, err := s.Slot(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		f.set(none)
		f.mu.Lock()
		f.pause = 90 * time.Millisecond
		f.mu.Unlock()
		time.Sleep(700 * time.Millisecond)
		began := time.Now()
		_ = s.Close()
		if took := time.Since(began); took > bounds.DefaultTimeout {
			t.Errorf("Close took %v, want %v at most", took, bounds.DefaultTimeout)
		}
	})
}
