// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// TestChargedOnReturn: units that Local admitted are charged to the store on its return, as
// far as they still count and fit.
func TestChargedOnReturn(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		costs []int64       // of takes, one after the other
		pause time.Duration // after each
		want  int64         // charged at most; some may have expired at the store since
		left  int64         // Remaining at the store, at once
	}{
		{"units", "10/h sliding-log", []int64{1, 2, 3}, 0, 6, 4},
		{"more than it holds", "10/h sliding-log", []int64{10}, 0, 11, 0},
		{"debt", "10/h sliding-log debt 5", []int64{10}, 0, 15, 0},
		{"long ago", "10/s sliding-log", []int64{9, 0, 0}, 3 * time.Second, 0, 10},
		{"the last windows", "10/min fixed-window anchor first", []int64{1, 1, 1, 1, 1, 1}, 50 * time.Second, 3, 7},
		{"a bucket that refills slowly", "6/h burst 6", []int64{1, 1}, time.Minute, 2, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
				defer end(t, f, s)
				p := testkit.Plan(t, "api", c.limit)
				bring(t, f, s, erring)
				for _, cost := range c.costs {
					if d := testkit.Take(t, s, testkit.Request(p, "k", cost)); !d.Allowed || !d.Degraded {
						t.Fatalf("cost %d: %+v", cost, d)
					}
					time.Sleep(c.pause)
				}
				if c.want > 10 { // charges beyond what fits
					req := testkit.Request(p, "k", c.want-10)
					req.Op = sluice.OpCharge
					testkit.Take(t, s, req)
				}
				mend(t, f, s)
				if st := s.Stats(); int64(st.Charged) != c.want || st.Owed != 0 || st.Dropped != 0 {
					t.Errorf("%+v: want %d units charged", st, c.want)
				}
				if d := testkit.Take(t, s, sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p, Key: "k"}}); d.Remaining != c.left || d.Degraded {
					t.Errorf("at the store: %+v, want %d remaining", d, c.left)
				}
			})
		})
	}
}

// TestChargedOnce: a request that was sent is charged once,
// with and without an answer.
func TestChargedOnce(t *testing.T) {
	for _, fault := range []fault{lost, late, slow} {
		t.Run(string(fault), func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
				defer end(t, f, s)
				p := testkit.Plan(t, "api", "100/h sliding-log")
				f.set(fault)
				for range 20 {
					if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || !d.Degraded {
						t.Fatalf("%+v", d)
					}
				}
				mend(t, f, s)
				time.Sleep(2 * slowness)
				if got := testkit.Spent(t, f.Store, p, "k"); got != 20 {
					t.Errorf("20 units were let through, the store counts %d; %+v", got, s.Stats())
				}
			})
		})
	}
}

// TestChargedUnsent: requests that were not sent are charged later, alone or in a batch.
func TestChargedUnsent(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "100/h sliding-log")
		f.set(unsent)
		for range 20 {
			if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || !d.Degraded {
				t.Fatalf("%+v", d)
			}
		}
		out := make([]sluice.Result, 2)
		if err := s.TakeBatch(t.Context(), []sluice.Request{testkit.Request(p, "k", 3), testkit.Request(p, "k", 4)}, out); err != nil {
			t.Fatal(err)
		}
		mend(t, f, s)
		if got, st := testkit.Spent(t, f.Store, p, "k"), s.Stats(); got != 27 || st.Charged != 27 || st.Owed != 0 {
			t.Errorf("27 units were let through, the store counts %d; %+v", got, st)
		}
	})
}

// TestGivenBack: a late answer to a refused request gives back its units, for every operation.
func TestGivenBack(t *testing.T) {
	p, q := testkit.Plan(t, "api", "100/h sliding-log"), testkit.Plan(t, "other", "50/h")
	more := func(cost int64) []sluice.Charge { return []sluice.Charge{{Plan: q, Key: "k", Cost: cost}} }
	for _, c := range []struct {
		name string
		req  sluice.Request
	}{
		{"take", testkit.Request(p, "k", 7)},
		{"take of two keys", sluice.Request{Charge: sluice.Charge{Plan: p, Key: "k", Cost: 7}, More: more(3)}},
		{"take of nothing, and of another key", sluice.Request{Charge: sluice.Charge{Plan: p, Key: "k"}, More: more(3)}},
		{"up to", sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 70}, More: more(60)}},
		{"reservation", sluice.Request{Op: sluice.OpReserve, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 7}, MaxWait: time.Minute}},
	} {
		for _, fault := range []fault{slow, tardy} {
			for _, leaves := range []bool{false, true} { // the caller, before the deadline
				t.Run(fmt.Sprintf("%s, store %s, caller leaves %v", c.name, fault, leaves), func(t *testing.T) {
					both(t, func(t *testing.T, f *faulty) {
						s := wrap(t, f, remote.Options{Policy: sluice.FailClosed})
						defer end(t, f, s)
						f.set(fault)
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						if leaves {
							time.AfterFunc(bounds.DefaultTimeout/2, leave)
						}
						_, err := s.Take(ctx, c.req)
						if _, unavailable := errors.AsType[*remote.UnavailableError](err); unavailable == leaves || errors.Is(err, context.Canceled) != leaves {
							t.Fatalf("got %v", err)
						}
						f.set(none)
						time.Sleep(2 * slowness)
						if a, b := testkit.Spent(t, f.Store, p, "k"), testkit.Spent(t, f.Store, q, "k"); a != 0 || b != 0 || s.Stats().GivenBack != 1 {
							t.Errorf("the store still counts %d and %d units; %+v", a, b, s.Stats())
						}
					})
				})
			}
		}
	}
}

// TestReceipts: a refund of units that the store did not spend never reaches it.
func TestReceipts(t *testing.T) {
	for _, policy := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, store back %v", policy, back), func(t *testing.T) {
				both(t, func(t *testing.T, f *faulty) {
					s := wrap(t, f, remote.Options{Policy: policy})
					defer end(t, f, s)
					lim, err := sluice.New(s, "api", sluice.MustParseLimit("10/h sliding-log"))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := lim.Take(t.Context(), "k", 4); err != nil {
						t.Fatal(err)
					}
					bring(t, f, s, erring)
					d, err := lim.Take(t.Context(), "k", 3)
					if err != nil || d.Spent != 3 {
						t.Fatalf("%+v, %v", d, err)
					}
					want := int64(4)
					if back {
						mend(t, f, s)
						if policy == sluice.FailLocal {
							want += 3 // charged on the return; then they cannot be distinguished from others
						}
					}
					refunded, err := lim.Refund(t.Context(), "k", 3, d)
					if err != nil || !refunded.Degraded {
						t.Fatalf("refund: %+v, %v", refunded, err)
					}
					if !back {
						mend(t, f, s)
					}
					if got := testkit.Spent(t, f.Store, lim.Plan(), "k"); got != want {
						t.Errorf("the store counts %d units, want %d", got, want)
					}
				})
			})
		}
	}
}

// TestOwedIsBounded: units of keys beyond MaxOwed are not recorded, but counted.
func TestOwedIsBounded(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, MaxOwed: 300})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10/h")
		bring(t, f, s, erring)
		for i := range 500 {
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 2))
		}
		if st := s.Stats(); st.Owed != 300 || st.Dropped != 400 {
			t.Errorf("%+v: want 300 keys owing and 400 units dropped", st)
		}
		mend(t, f, s)
		if st := s.Stats(); st.Charged != 600 || st.Owed != 0 || st.Dropped != 400 {
			t.Errorf("%+v: want 600 units charged", st)
		}
	})
}

// TestReset: a reset that does not reach the store is an error under every policy; the state
// of the key in this process is forgotten all the same.
func TestReset(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10/h")
		bring(t, f, s, erring)
		testkit.Take(t, s, testkit.Request(p, "k", 10))
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed {
			t.Fatalf("%+v, want it denied", d)
		}
		_, err := s.Take(t.Context(), sluice.Request{Op: sluice.OpReset, Charge: sluice.Charge{Plan: p, Key: "k"}})
		if _, unavailable := errors.AsType[*remote.UnavailableError](err); !unavailable {
			t.Errorf("reset: %v", err)
		}
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || d.Remaining != 9 {
			t.Errorf("after the reset: %+v, want 9 remaining", d)
		}
		mend(t, f, s)
		if got := s.Stats().Charged; got != 1 {
			t.Errorf("%d units charged, want the 1 since the reset", got)
		}
	})
}

// TestStoreDiesAgain: a store that fails during the charges on its return gets no requests,
// and nothing is sent twice.
func TestStoreDiesAgain(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "1000/h sliding-log")
		bring(t, f, s, erring)
		for i := range 1000 {
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1))
		}
		for range 3 {
			f.set(none)
			time.Sleep(300 * time.Millisecond)
			f.set(lost)
			time.Sleep(time.Second)
		}
		mend(t, f, s)
		time.Sleep(time.Second)
		st := s.Stats()
		if st.Charged+st.Dropped != 1000 || st.Owed != 0 {
			t.Errorf("%+v: want 1000 units charged or dropped", st)
		}
		for i := range 1000 {
			if got := testkit.Spent(t, f.Store, p, fmt.Sprint(i)); got > 1 {
				t.Errorf("key %d is charged %d times", i, got)
			}
		}
	})
}

// TestMaybeSentIsNotOwed: units that may have been sent are not charged again, whatever else
// the error says.
func TestMaybeSentIsNotOwed(t *testing.T) {
	unsent := &sluice.NotSentError{Err: errBroken}
	for _, err := range []error{
		&sluice.MaybeSentError{Err: unsent}, errors.Join(unsent, &sluice.MaybeSentError{Err: errBroken}),
		fmt.Errorf("wrapped: %w", &sluice.MaybeSentError{Err: errBroken}), errBroken,
	} {
		s, fault := remote.Wrap(testkit.Failing(err), remote.Options{
			Policy: sluice.FailLocal, Local: memstore.New(memstore.Options{MaxKeys: 10}),
			Failures: math.MaxInt,
		})
		if fault != nil {
			t.Fatal(fault)
		}
		p := testkit.Plan(t, "scope", "10/h sliding-log")
		if d, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: p, Cost: 1}}); err != nil || !d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
		if st := s.Stats(); st.Owed > 0 || st.Charged+st.Dropped > 0 || st.InFlight > 0 {
			t.Errorf("%v: %+v; want nothing owed", err, st)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
