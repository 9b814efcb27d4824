// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestWaitersOfALease: a call waits for the units of another request. If that fails, the call
// gets the cause in a NotSentError, as only the call that asked has a handle. If the caller
// that asked has left, its error does not reach the calls that wait.
func TestWaitersOfALease(t *testing.T) {
	handle := sluice.NewMaybeSentError(errLost, func(bool, func(sluice.Late)) {})
	for _, c := range []struct {
		name string
		err  error
	}{
		{"maybe sent", handle}, {"not sent", &sluice.NotSentError{Err: errLost}}, {"any other", errLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := testkit.Plan(t, "api", "1000/s sliding-log")
				var fails error
				gate := make(chan struct{})
				store := &testkit.Store{Store: memstore.New(memstore.Options{}), Before: func(context.Context, sluice.Request) error {
					if fails == nil {
						return nil
					}
					<-gate
					return fails
				}}
				s := newNearStore(store, Options{Lease: always(sluice.LeaseTerms{TTL: time.Second, Units: 4})})
				for spent := false; !spent; spent = s.leases().Leased == s.leases().Allowed && s.leases().Leased > 8 {
					testkit.Take(t, s, testkit.Request(plan, "k", 1))
				}
				fails = c.err
				answers := send(t.Context(), s, plan, 3)
				close(gate)
				synctest.Wait()
				handles := 0
				for range 3 {
					err := (<-answers).err
					maybe, isMaybe := errors.AsType[*sluice.MaybeSentError](err)
					if isMaybe && maybe == handle {
						handles++
					}
					if _, not := errors.AsType[*sluice.NotSentError](err); !errors.Is(err, errLost) || !not && !isMaybe && !errors.Is(c.err, err) {
						t.Errorf("got %v", err)
					}
				}
				if want := errors.Is(c.err, handle); (handles == 1) != want || handles > 1 {
					t.Errorf("%d have the handle", handles)
				}
			})
		})
	}
}

// TestWhoAskedLeaves: one caller asks for units and another waits for them; if the first
// leaves, the second asks.
func TestWhoAskedLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := testkit.Plan(t, "api", "1000/s sliding-log")
		slow := false
		store := &testkit.Store{Store: memstore.New(memstore.Options{}), Before: func(ctx context.Context, _ sluice.Request) error {
			if !slow {
				return nil
			}
			slow = false
			<-ctx.Done()
			return &sluice.NotSentError{Err: ctx.Err()}
		}}
		s := newNearStore(store, Options{Lease: always(sluice.LeaseTerms{TTL: time.Second, Units: 4})})
		for spent := false; !spent; spent = s.leases().Leased == s.leases().Allowed && s.leases().Leased > 8 {
			testkit.Take(t, s, testkit.Request(plan, "k", 1))
		}
		slow = true
		ctx, cancel := context.WithCancel(t.Context())
		leaves := send(ctx, s, plan, 1)
		waits := send(t.Context(), s, plan, 2)
		cancel()
		if err := (<-leaves).err; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves: %v", err)
		}
		for range 2 {
			if a := <-waits; a.err != nil || !a.d.Allowed {
				t.Errorf("who waits: %+v, %v", a.d, a.err)
			}
		}
	})
}

// TestWaiterLeavesUnsent: a caller that leaves while another asks has sent nothing.
func TestWaiterLeavesUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, g, p := pressed(t, 200*time.Millisecond, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		first := send(t.Context(), cache, p, 1)
		_, err := cache.Take(ctx, testkit.Request(p, "k", 1))
		if _, ok := errors.AsType[*sluice.NotSentError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(g.gate)
		if a := <-first; a.err != nil {
			t.Error(a.err)
		}
	})
}

// TestErrorForgets: after an error the store is asked again about remembered denials.
func TestErrorForgets(t *testing.T) {
	plan := testkit.Plan(t, "api", "2/h")
	for _, leased := range []bool{false, true} {
		var of func(*sluice.Plan) (sluice.LeaseTerms, bool)
		if leased {
			of = always(sluice.LeaseTerms{TTL: time.Millisecond, Units: 2})
		}
		w := newCached(Options{Lease: of})
		for range 4 {
			testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
		}
		before := w.store.Asked()
		testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
		if w.store.Asked() != before {
			t.Fatal("not denied from memory")
		}
		w.store.Before = func(context.Context, sluice.Request) error { return errLost }
		up := testkit.Request(plan, "k", 1)
		up.Op = sluice.OpTakeUpTo
		if _, err := w.cache.Take(t.Context(), up); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		w.store.Before = nil
		before = w.store.Asked()
		testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
		if w.store.Asked() == before {
			t.Errorf("leased %v: denied from memory after an error", leased)
		}
	}
}

// TestForget: earlier denials are forgotten, and those on their way are not remembered.
func TestForget(t *testing.T) {
	for _, leased := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			plan := testkit.Plan(t, "api", "2/h sliding-log")
			var of func(*sluice.Plan) (sluice.LeaseTerms, bool)
			if leased {
				of = always(sluice.LeaseTerms{TTL: time.Millisecond, Units: 1})
			}
			store := &late{Store: memstore.New(memstore.Options{})}
			counted := &testkit.Store{Store: store}
			s := newNearStore(counted, Options{Lease: of})
			req := testkit.Request(plan, "k", 1)
			for range 3 {
				testkit.Take(t, s, req)
			}
			ask := func() bool {
				before := counted.Asked()
				testkit.Take(t, s, req)
				return counted.Asked() > before
			}
			if ask() {
				t.Fatal("not denied from memory")
			}
			s.forget(&req)
			gate := make(chan struct{})
			store.wait = map[string]chan struct{}{"take 1": gate, "reserve 1": gate}
			answers := send(t.Context(), s, plan, 1)
			s.forget(&req)
			close(gate)
			if a := <-answers; a.err != nil || a.d.Allowed {
				t.Errorf("%+v, %v", a.d, a.err)
			}
			store.wait = nil
			if !ask() {
				t.Errorf("leased %v: denied from memory what was on its way when it was forgotten", leased)
			}
			if ask() {
				t.Errorf("leased %v: not denied from memory after that", leased)
			}
		})
	}
}

// TestPartOfABatchFails: requests decided here stay decided if the store fails for the rest,
// which was not sent.
func TestPartOfABatchFails(t *testing.T) {
	plan := testkit.Plan(t, "api", "2/h")
	w := newCached(Options{})
	for range 3 {
		testkit.Take(t, w.cache, testkit.Request(plan, "denied", 1))
	}
	w.store.Before = func(context.Context, sluice.Request) error { return errLost }
	reqs := []sluice.Request{testkit.Request(plan, "denied", 1), testkit.Request(plan, "k", 1)}
	out := make([]sluice.Result, 2)
	if err := w.cache.TakeBatch(t.Context(), reqs, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Err != nil || out[0].Decision.Allowed {
		t.Errorf("known to be denied: %+v", out[0])
	}
	if _, ok := errors.AsType[*sluice.NotSentError](out[1].Err); !ok || !errors.Is(out[1].Err, errLost) {
		t.Errorf("the rest: %v", out[1].Err)
	}
	if err := w.cache.TakeBatch(t.Context(), reqs[1:], out[1:]); !errors.Is(err, errLost) {
		t.Errorf("all of a batch: %v", err)
	}
	if n := w.cache.remembered(); n != 1 {
		t.Errorf("%d entries, want one", n)
	}
}

// TestPanicLetsGo: a store that panics blocks no caller.
func TestPanicLetsGo(t *testing.T) {
	plan := testkit.Plan(t, "api", "5/s")
	w := newCached(Options{Lease: always(sluice.LeaseTerms{TTL: 10 * time.Millisecond, Units: 3})})
	w.store.Before = func(context.Context, sluice.Request) error { panic("broken") }
	req := testkit.Request(plan, "k", 1)
	for _, take := range []func(){
		func() { testkit.Take(t, w.cache, req) },
		func() { _ = w.cache.TakeBatch(t.Context(), []sluice.Request{req}, make([]sluice.Result, 1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			take()
		}()
		for i := range w.cache.shards {
			for _, e := range w.cache.shards[i].entries {
				if e.calls > 0 || e.hasLeader {
					t.Errorf("%d calls are on their way for ever", e.calls)
				}
			}
		}
	}
	w.store.Before = nil
	if d := testkit.Take(t, w.cache, req); !d.Allowed {
		t.Errorf("%+v", d)
	}
}
