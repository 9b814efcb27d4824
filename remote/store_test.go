// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/storetest"
)

// TestConformanceInFront: in front of a store that answers, every decision is that store's.
// A remembered denial may have an old Remaining, so all memory expires at once.
func TestConformanceInFront(t *testing.T) {
	storetest.Test(t, func(t *testing.T, now func() time.Time) storetest.Harness {
		m := memstore.New(memstore.Options{Now: now})
		s := wrap(t, m, remote.Options{Policy: sluice.FailLocal, Timeout: time.Hour, MaxInFlight: 1 << 20, Now: leaping()})
		t.Cleanup(func() {
			if st := s.Stats(); st.Opened+st.DecidedLocally+st.Refused > 0 {
				t.Errorf("%+v: want every request decided by the store", st)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return storetest.Harness{Store: s, Slots: s, Steps: testkit.Steps(1500, 4_000)}
	})
}

// TestInvariant22 (store down): FailClosed admits nothing and FailLocal no more than its
// bound, no decision takes longer than its deadline, and a second after its return the store
// decides all requests.
func TestInvariant22(t *testing.T) {
	for _, fault := range []fault{erring, hung, lost, late, slow, deaf} {
		for _, policy := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal, sluice.FailClosed} {
			t.Run(fmt.Sprintf("%v %s", policy, fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testDown(t, fault, policy) })
			})
		}
	}
}

func testDown(t *testing.T, fault fault, policy sluice.Failure) {
	f := newFaulty()
	var changes []bool
	s := wrap(t, f, remote.Options{
		Policy: policy, Nodes: func() int { return 4 }, MaxInFlight: 64,
		OnChange: func(err error) { changes = append(changes, err == nil) },
	})
	defer end(t, f, s)
	p := testkit.Plan(t, "api", "100/s sliding-log")
	if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || d.Degraded {
		t.Fatalf("a store that answers: %+v", d)
	}
	f.set(fault)
	var mu sync.Mutex
	var wg sync.WaitGroup
	allowed := 0
	const callers, rounds = 100, 50
	for i := range callers {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond / 10)
			for range rounds {
				began := time.Now()
				d, err := s.Take(t.Context(), testkit.Request(p, "k", 1))
				if took := time.Since(began); took > bounds.DefaultTimeout {
					t.Errorf("a decision took %v", took)
				}
				_, unavailable := errors.AsType[*remote.UnavailableError](err)
				if unavailable != (policy == sluice.FailClosed) || err != nil && !unavailable || err == nil && !d.Degraded {
					t.Errorf("got %+v, %v", d, err)
				}
				mu.Lock()
				if d.Allowed {
					allowed++
				}
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	node := algo.Bound(p.Term(0).Share(4), time.Second)
	if node != 25 {
		t.Errorf("the bound of a node is %d, want 25", node)
	}
	// Rounds take 2.5 to 7.5 s in all, so that 2 windows pass and at most 8 count.
	want := map[sluice.Failure]bool{
		sluice.FailOpen:   allowed == callers*rounds,
		sluice.FailLocal:  int64(allowed) >= 2*node && int64(allowed) <= 8*node,
		sluice.FailClosed: allowed == 0,
	}
	if !want[policy] {
		t.Errorf("%d of %d requests allowed", allowed, callers*rounds)
	}
	if most := f.peak(); most > 65 {
		t.Errorf("%d calls at once, want at most 64 and one to try", most)
	}
	st := s.Stats()
	if sum := st.Opened + st.DecidedLocally + st.Refused; sum != callers*rounds || st.Decided != 1 || st.Healthy || st.Outages != 1 {
		t.Errorf("%+v: want %d degraded decisions and one outage", st, callers*rounds)
	}
	if took := mend(t, f, s); took > time.Second && fault != slow || took > time.Second+slowness {
		t.Errorf("healthy %v after the store", took)
	}
	if d := testkit.Take(t, s, testkit.Request(p, "other", 1)); !d.Allowed || d.Degraded {
		t.Errorf("after the return: %+v", d)
	}
	time.Sleep(2 * slowness)
	synctest.Wait()
	if st := s.Stats(); st.InFlight != 0 || st.Owed != 0 {
		t.Errorf("%+v: want nothing in flight and nothing owed", st)
	}
	if !slices.Equal(changes, []bool{false, true}) {
		t.Errorf("notified of changes %v, want one outage and one return", changes)
	}
}

// TestDeadline: every operation, alone or in a batch, is answered at the deadline.
func TestDeadline(t *testing.T) {
	p := testkit.Plan(t, "api", "10/s")
	for _, c := range []struct {
		name string
		own  time.Duration // the caller's deadline
		want time.Duration
	}{
		{"of the store", time.Hour, 70 * time.Millisecond},
		{"of the caller", 20 * time.Millisecond, 20 * time.Millisecond},
		{"in the past", -time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Timeout: 70 * time.Millisecond, Failures: 1000})
				defer end(t, f, s)
				f.set(hung)
				for op := sluice.OpTake; op <= sluice.OpConvert; op++ {
					req := testkit.Request(p, "k", 1)
					req.Op, req.Outcomes = op, new(make(sluice.Outcomes, 1))
					if op == sluice.OpRefund {
						req.At = 1
					}
					for _, batch := range []bool{false, true} {
						ctx, cancel := context.WithTimeout(t.Context(), c.own)
						began := time.Now()
						var d sluice.Decision
						var err error
						if batch {
							out := make([]sluice.Result, 2)
							if err = s.TakeBatch(ctx, []sluice.Request{testkit.Request(p, "other", -1), req}, out); err != nil {
								out[1].Err = err
							} else if _, invalid := errors.AsType[*sluice.RequestError](out[0].Err); !invalid {
								t.Errorf("%v: an invalid request in a batch: %v", op, out[0].Err)
							}
							d, err = out[1].Decision, out[1].Err
						} else {
							d, err = s.Take(ctx, req)
						}
						if took := time.Since(began); took != c.want {
							t.Errorf("%v: answered after %v, want %v", op, took, c.want)
						}
						if c.own < c.want+time.Second { // the caller's time is over, and it gets nothing
							if !errors.Is(err, context.DeadlineExceeded) || d != (sluice.Decision{}) {
								t.Errorf("%v: got %+v, %v", op, d, err)
							}
							cancel()
							continue
						}
						_, unavailable := errors.AsType[*remote.UnavailableError](err)
						if refused := op >= sluice.OpReset; unavailable != refused || !refused && (err != nil || !d.Allowed || !d.Degraded) {
							t.Errorf("%v: got %+v, %v", op, d, err)
						}
						cancel()
					}
				}
			})
		})
	}
}

// TestCallersOwnMemory: a caller may change the memory that it passes as soon as it has its
// answer, whatever the store does later. The race detector checks it.
func TestCallersOwnMemory(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Failures: 100})
		defer end(t, f, s)
		p, q := testkit.Plan(t, "api", "10/h"), testkit.Plan(t, "other", "10/h")
		f.set(slow)
		req := testkit.Request(p, "k", 1)
		req.More = []sluice.Charge{{Plan: q, Key: "k", Cost: 1}}
		req.Outcomes = new(make(sluice.Outcomes, 2))
		reqs, out := []sluice.Request{req}, make([]sluice.Result, 1)
		testkit.Take(t, s, req)
		if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
			t.Fatal(err)
		}
		req.More[0] = sluice.Charge{}
		reqs[0] = sluice.Request{}
		clear(*req.Outcomes)
		out[0] = sluice.Result{}
		time.Sleep(2 * slowness)
		if got := testkit.Spent(t, f.Store, q, "k"); got != 2 {
			t.Errorf("the store has charged %d units under the second plan, want 2", got)
		}
		if (*req.Outcomes)[0] != (sluice.Outcome{}) || out[0] != (sluice.Result{}) {
			t.Errorf("written after the answer: %+v, %+v", req.Outcomes, out)
		}
	})
}

// TestNoHerd: when a store returns, only a few of the waiting requests reach it at once, until
// it has answered some.
func TestNoHerd(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailClosed})
		defer end(t, f, s)
		bring(t, f, s, erring)
		p := testkit.Plan(t, "api", "1000000/s")
		f.pause = 5 * time.Millisecond
		f.counts = func() bool { return s.Err() != nil } // then all may come
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				for s.Err() != nil {
					_, err := s.Take(t.Context(), testkit.Request(p, "k", 1))
					if _, unavailable := errors.AsType[*remote.UnavailableError](err); err != nil && !unavailable {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		f.peak()
		mend(t, f, s)
		if most := f.peak(); most < 2 || most > 16 {
			t.Errorf("%d calls at once while the store returned, want 2 to 16", most)
		}
		wg.Wait()
	})
}

// TestNotTheStoresFault: invalid requests, callers that leave and denials do not open the
// breaker.
func TestNotTheStoresFault(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailClosed, Now: leaping()})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "1/h")
		for range 50 {
			_, err := s.Take(t.Context(), testkit.Request(p, "k", -1))
			if _, invalid := errors.AsType[*sluice.RequestError](err); !invalid {
				t.Fatalf("a negative cost: %v", err)
			}
			testkit.Take(t, s, testkit.Request(p, "k", 1))
		}
		f.set(slow)
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := s.Take(ctx, testkit.Request(p, "k", 1)); !errors.Is(err, context.Canceled) {
				t.Fatalf("a caller that leaves: %v", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := s.Take(ctx, testkit.Request(p, "k", 1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a caller in a hurry: %v", err)
			}
			cancel()
		}
		if st := s.Stats(); !st.Healthy || st.Outages != 0 {
			t.Errorf("%+v: want a healthy store", st)
		}
	})
}

func TestClose(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		bring(t, f, s, hung)
		p := testkit.Plan(t, "api", "10/h")
		testkit.Take(t, s, testkit.Request(p, "k", 3))
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Take(t.Context(), testkit.Request(p, "k", 1)); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := s.TakeBatch(t.Context(), []sluice.Request{testkit.Request(p, "k", 1)}, make([]sluice.Result, 1)); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("a batch after Close: %v", err)
		}
		if st := s.Stats(); st.Owed != 0 || st.Dropped != 3 {
			t.Errorf("%+v: want the 3 units owed dropped", st)
		}
		f.set(none)
	})
}

func TestWrapRefuses(t *testing.T) {
	store := memstore.New(memstore.Options{})
	for _, c := range []struct {
		name  string
		store sluice.Store
		opts  remote.Options
	}{
		{"no store", nil, remote.Options{}},
		{"a policy that is none", store, remote.Options{Policy: 3}},
		{"local, and no store to decide", store, remote.Options{Policy: sluice.FailLocal}},
		{"a store to decide that keeps no slots", store, remote.Options{Local: plainStore{store}}},
	} {
		if _, err := remote.Wrap(c.store, c.opts); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}
