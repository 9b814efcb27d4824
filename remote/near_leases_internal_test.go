// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // the suite's zones, on a machine without zone files

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func always(terms sluice.LeaseTerms) func(*sluice.Plan) (sluice.LeaseTerms, bool) {
	return func(*sluice.Plan) (sluice.LeaseTerms, bool) { return terms, true }
}

// fleet is nodes on one store, all on one clock.
type fleet struct {
	t     *testing.T
	clock *testkit.Clock
	store *testkit.Store
	nodes []*nearStore
	plan  *sluice.Plan

	refunds atomic.Int64          // units given back to the store
	fails   atomic.Pointer[error] // the store's answer, if not nil
}

func newFleet(t *testing.T, nodes int, text string, terms sluice.LeaseTerms) *fleet {
	t.Helper()
	f := &fleet{t: t, clock: testkit.NewClock(), plan: testkit.Plan(t, "fleet", text)}
	f.store = &testkit.Store{Store: memstore.New(memstore.Options{MaxKeys: 1000, Now: f.clock.Now}), Before: f.note}
	for range nodes {
		f.nodes = append(f.nodes, newNearStore(f.store, Options{Lease: always(terms), Now: f.clock.Now}))
	}
	return f
}

func (f *fleet) note(_ context.Context, req sluice.Request) error {
	if req.Op == sluice.OpRefund {
		f.refunds.Add(req.Cost)
	}
	if err := f.fails.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *fleet) do(node int, op sluice.Op, cost int64) sluice.Decision {
	f.t.Helper()
	req := sluice.Request{Op: op, Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: cost}}
	d, err := f.nodes[node].Take(context.Background(), req)
	if err != nil {
		f.t.Fatalf("%v %d at node %d: %v", op, cost, node, err)
	}
	return d
}

// TestAllOfTheQuota: one node alone gets the whole quota of a key at rest, with few calls, and
// then nothing before the first units expire.
func TestAllOfTheQuota(t *testing.T) {
	f := newFleet(t, 1, "1000/s sliding-log", sluice.LeaseTerms{TTL: 30 * time.Millisecond, Units: 10})
	for i := range 1000 {
		if d := f.do(0, sluice.OpTake, 1); !d.Allowed || d.Spent != 1 || d.Remaining != int64(999-i) {
			t.Fatalf("take %d: %+v", i+1, d)
		}
	}
	if got := f.store.Calls(); got > 120 {
		t.Errorf("%d calls for 1000 takes", got)
	}
	d := f.do(0, sluice.OpTake, 1)
	if d.Allowed || d.RetryAfter != 1030*time.Millisecond {
		t.Fatalf("take 1001: allowed %v, retry after %v, want denied and 1.03s", d.Allowed, d.RetryAfter)
	}
	asked := f.store.Calls()
	for range 500 {
		f.clock.Advance(time.Millisecond)
		if d := f.do(0, sluice.OpTake, 1); d.Allowed || d.RetryAfter > 1030*time.Millisecond {
			t.Fatalf("denied take: %+v", d)
		}
	}
	if got := f.store.Calls() - asked; got != 0 {
		t.Errorf("%d calls about a key that is known to be denied", got)
	}
}

// TestExpiredUnitsComeBack: units that a node has not used within the TTL are given back with
// its next call, and others may take them.
func TestExpiredUnitsComeBack(t *testing.T) {
	f := newFleet(t, 2, "100/s sliding-log", sluice.LeaseTerms{TTL: 50 * time.Millisecond, Units: 10})
	for range 5 {
		f.do(0, sluice.OpTake, 1)
	}
	stats := f.nodes[0].leases()
	held := int64(stats.Leased - stats.Allowed)
	if held == 0 {
		t.Fatal("nothing was leased")
	}
	left := func() int64 { return f.do(1, sluice.OpPeek, 1).Remaining }
	if got, want := left(), 95-held; got != want {
		t.Fatalf("the other node sees %d, want %d", got, want)
	}
	f.clock.Advance(60 * time.Millisecond)
	f.do(0, sluice.OpTake, 1) // asks for the cost, gives back the rest
	now := f.nodes[0].leases()
	if got, want := left(), 94-int64(now.Leased-now.Allowed-now.Returned); got != want || now.Returned != uint64(held) {
		t.Fatalf("the other node sees %d, want %d; %d returned of %d", got, want, now.Returned, held)
	}
}

func TestReturn(t *testing.T) {
	for _, limit := range []string{"100/s sliding-log", "100/s", "100/s fixed-window", "100/s sliding-counter"} {
		t.Run(limit, func(t *testing.T) {
			f := newFleet(t, 2, limit, sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 20})
			for range 12 {
				f.do(0, sluice.OpTake, 1)
			}
			before := f.do(1, sluice.OpPeek, 1).Remaining
			if err := f.nodes[0].giveBack(t.Context()); err != nil {
				t.Fatal(err)
			}
			held := f.refunds.Load()
			if got := f.do(1, sluice.OpPeek, 1).Remaining; held == 0 || got != before+held {
				t.Errorf("%d remain after %d were returned, %d before", got, held, before)
			}
			if err := f.nodes[0].giveBack(t.Context()); err != nil || f.refunds.Load() != held {
				t.Errorf("returned again: %d, %v", f.refunds.Load()-held, err)
			}
		})
	}
}

// TestReturnFails: units that cannot be given back are an error, and are not spent either.
func TestReturnFails(t *testing.T) {
	f := newFleet(t, 1, "100/s sliding-log", sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 20})
	for range 12 {
		f.do(0, sluice.OpTake, 1)
	}
	gone := errors.New("gone")
	f.fails.Store(&gone)
	if err := f.nodes[0].giveBack(t.Context()); !errors.Is(err, gone) {
		t.Fatalf("return: %v", err)
	}
	if stats := f.nodes[0].leases(); stats.Lost == 0 || stats.Returned != 0 {
		t.Errorf("%+v", stats)
	}
	if _, err := f.nodes[0].Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: 1}}); !errors.Is(err, gone) {
		t.Errorf("a take after the return: %v, want the store's error", err)
	}
}

// TestOutageIsBridged: leased units are spent while the store fails, but no longer than the
// TTL.
func TestOutageIsBridged(t *testing.T) {
	f := newFleet(t, 1, "100/s sliding-log", sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 20})
	for range 12 {
		f.do(0, sluice.OpTake, 1)
	}
	gone := errors.New("gone")
	f.fails.Store(&gone)
	if d := f.do(0, sluice.OpTake, 1); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	f.clock.Advance(20 * time.Millisecond)
	if _, err := f.nodes[0].Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: 1}}); !errors.Is(err, gone) {
		t.Fatalf("after the TTL: %v, want the store's error", err)
	}
}

// TestResetForgets: a reset here forgets leased units and denials.
func TestResetForgets(t *testing.T) {
	f := newFleet(t, 1, "20/s sliding-log", sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 5})
	for f.do(0, sluice.OpTake, 1).Allowed {
	}
	f.do(0, sluice.OpReset, 0)
	n := 0
	for f.do(0, sluice.OpTake, 1).Allowed {
		n++
	}
	if n != 20 {
		t.Errorf("%d allowed after a reset, want 20", n)
	}
}

// TestRefundOpensDeniedKey: units refunded through this store are available at once.
func TestRefundOpensDeniedKey(t *testing.T) {
	f := newFleet(t, 1, "20/s sliding-log", sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 5})
	var last sluice.Decision
	for {
		d := f.do(0, sluice.OpTake, 1)
		if !d.Allowed {
			break
		}
		last = d
	}
	req := sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: 1}, At: last.At, Due: last.Due}
	d, err := f.nodes[0].Take(t.Context(), req)
	if err != nil || d.Spent != -1 {
		t.Fatalf("refund: %+v, %v", d, err)
	}
	if d := f.do(0, sluice.OpTake, 1); !d.Allowed {
		t.Errorf("after the refund: %+v", d)
	}
	if d := f.do(0, sluice.OpTake, 1); d.Allowed {
		t.Errorf("one more than was refunded: %+v", d)
	}
}

// TestConcurrentFleet: all takes of one instant together get exactly the quota, less the units
// that nodes still hold at the end, whatever happens at once.
func TestConcurrentFleet(t *testing.T) {
	f := newFleet(t, 4, "500/s sliding-log", sluice.LeaseTerms{TTL: 30 * time.Millisecond, Units: 10})
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			batch := g%4 == 0
			for range 100 {
				req := sluice.Request{Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: 1}}
				if batch {
					out := make([]sluice.Result, 3)
					if err := f.nodes[g/4].TakeBatch(context.Background(), []sluice.Request{req, req, req}, out); err != nil {
						t.Error(err)
					}
					for _, r := range out {
						if r.Err != nil {
							t.Error(r.Err)
						}
						if r.Decision.Allowed {
							allowed.Add(1)
						}
					}
					continue
				}
				d, err := f.nodes[g/4].Take(context.Background(), req)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	var held int64
	for _, n := range f.nodes {
		if err := n.giveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		held = f.refunds.Load()
	}
	if got := allowed.Load(); got > 500 || got+held < 500 {
		t.Errorf("%d allowed, %d in hand; want 500 together", got, held)
	}
}

// TestWaitersLeave: a caller that waits for another's answer leaves with its own context.
func TestWaitersLeave(t *testing.T) {
	f := newFleet(t, 1, "500/s sliding-log", sluice.LeaseTerms{TTL: 30 * time.Millisecond, Units: 10})
	f.do(0, sluice.OpTake, 1)
	var hangs atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	hang := &testkit.Store{Store: f.store, Before: func(context.Context, sluice.Request) error {
		if hangs.Load() {
			entered <- struct{}{}
			<-release
		}
		return nil
	}}
	node := newNearStore(hang, Options{Lease: always(sluice.LeaseTerms{TTL: time.Second, Units: 10}), Now: f.clock.Now})
	req := sluice.Request{Charge: sluice.Charge{Plan: f.plan, Key: "k", Cost: 1}}
	for range 3 {
		if _, err := node.Take(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for { // until it asks again
		if _, err := node.Take(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if s := node.leases(); s.Leased == s.Allowed {
			break
		}
	}
	hangs.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		if d, err := node.Take(context.Background(), req); err != nil || !d.Allowed {
			t.Errorf("the one who asked: %+v, %v", d, err)
		}
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := node.Take(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("one who waits: %v, want its context's error", err)
	}
	close(release)
	wg.Wait()
}

// TestKeysWithoutRoom: keys beyond the room of the table are still decided.
func TestKeysWithoutRoom(t *testing.T) {
	f := newFleet(t, 1, "3/s sliding-log", sluice.LeaseTerms{})
	node := newNearStore(f.store, Options{Lease: always(sluice.LeaseTerms{TTL: time.Millisecond, Units: 2}), MaxKeys: -1, Now: f.clock.Now})
	for round := range 5 {
		for k := range 500 {
			req := sluice.Request{Charge: sluice.Charge{Plan: f.plan, Key: strings.Repeat("x", k), Cost: 1}}
			d, err := node.Take(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if round >= 3 && d.Allowed {
				t.Fatalf("take %d of a key with a quota of 3 is allowed", round+1)
			}
		}
	}
	if node.leases().Untracked == 0 {
		t.Error("there was room for all: this shows nothing")
	}
	if bound := algo.Bound(f.plan.Term(0).Limit, time.Second); bound != 3 {
		t.Errorf("bound %d", bound)
	}
}
