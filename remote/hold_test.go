// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

func opened(t *testing.T, s sluice.Store, p *sluice.Plan, units int64, id string) (*sluice.Held, sluice.Decision) {
	t.Helper()
	l, err := sluice.New(s, p.Scope(), p.Term(0).Limit)
	if err != nil {
		t.Fatal(err)
	}
	held, d, err := l.Hold(t.Context(), "k", units, sluice.HoldOptions{ID: id, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &held, d
}

func wantSettled(t *testing.T, held *sluice.Held, actual int64, state sluice.HoldState) {
	t.Helper()
	if d, err := held.Settle(t.Context(), actual); err != nil || d.Hold != state {
		t.Errorf("settle: got %+v, %v, want hold %d", d, err, state)
	}
}

// TestHoldIsNotDeniedNear: a remembered denial does not deny an open hold, and a settle ends
// the denial.
func TestHoldIsNotDeniedNear(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10/h sliding-log")
		held, _ := opened(t, s, p, 10, "a")
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed {
			t.Fatalf("got %+v", d)
		}
		if _, d := opened(t, s, p, 10, "a"); !d.Allowed || d.Hold != sluice.HoldOpen {
			t.Errorf("a repetition: got %+v", d)
		}
		if _, d := opened(t, s, p, 1, "b"); d.Allowed || d.Hold != 0 {
			t.Errorf("another: got %+v", d)
		}
		wantSettled(t, held, 4, sluice.HoldSettled)
		if d := testkit.Take(t, s, testkit.Request(p, "k", 6)); !d.Allowed {
			t.Errorf("after the settle: got %+v", d)
		}
	})
}

// TestHoldsFailOpen: a request that passes without the store opens no hold, and its settle is
// charged in full on the store's return.
func TestHoldsFailOpen(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailOpen})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10/h sliding-log")
		bring(t, f, s, erring)
		held, d := opened(t, s, p, 6, "a")
		if !d.Allowed || !d.Degraded || d.At != 0 {
			t.Fatalf("got %+v", d)
		}
		mend(t, f, s)
		wantSettled(t, held, 3, sluice.HoldExpired)
		wantSettled(t, held, 3, sluice.HoldSettled)
		if n := testkit.Spent(t, s, p, "k"); n != 3 {
			t.Errorf("%d units are spent, want 3", n)
		}
	})
}

// TestHoldsFailLocal: a hold is settled where it was opened. The used units are owed to the
// store.
func TestHoldsFailLocal(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "40/h sliding-log debt 20")
		known, _ := opened(t, s, p, 5, "store's")
		bring(t, f, s, erring)
		less, _ := opened(t, s, p, 6, "less")
		more, _ := opened(t, s, p, 3, "more")
		if _, d := opened(t, s, p, 3, "more"); d.Hold != sluice.HoldOpen || !d.Degraded {
			t.Errorf("a repetition: got %+v", d)
		}
		wantSettled(t, less, 2, sluice.HoldSettled)
		wantSettled(t, more, 7, sluice.HoldSettled)
		wantSettled(t, more, 7, sluice.HoldSettled)
		wantSettled(t, known, 4, 0) // sent on the store's return
		mend(t, f, s)
		if st := s.Stats(); st.Charged != 2+7+4 || st.Owed != 0 {
			t.Errorf("got %+v, want 13 units charged", st)
		}
		if n := testkit.Spent(t, s, p, "k"); n != 13 {
			t.Errorf("%d units are spent before the end of the store's hold, want 13", n)
		}
		time.Sleep(time.Minute)
		if n := testkit.Spent(t, s, p, "k"); n != 13 {
			t.Errorf("%d units are spent, want 13", n)
		}
	})
}

// TestHoldOfLostAnswer: a hold that the store may have opened is charged once, and settled at
// the store.
func TestHoldOfLostAnswer(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "40/h sliding-log")
		f.set(lost)
		held, d := opened(t, s, p, 6, "a")
		if !d.Degraded {
			t.Fatalf("got %+v", d)
		}
		mend(t, f, s)
		wantSettled(t, held, 2, sluice.HoldSettled)
		if n := testkit.Spent(t, s, p, "k"); n != 2 {
			t.Errorf("%d units are spent, want 2", n)
		}
	})
}

// TestSettleIsOwed: a settle that could not be sent to the store is charged on its return,
// under every policy.
func TestSettleIsOwed(t *testing.T) {
	for _, policy := range []sluice.Failure{sluice.FailOpen, sluice.FailClosed} {
		both(t, func(t *testing.T, f *faulty) {
			s := wrap(t, f, remote.Options{Policy: policy})
			defer end(t, f, s)
			p := testkit.Plan(t, "api", "10/h sliding-log")
			held, _ := opened(t, s, p, 6, "a")
			bring(t, f, s, erring)
			if d, err := held.Settle(t.Context(), 2); err != nil || !d.Degraded || d.Spent != 2 {
				t.Errorf("%v: got %+v, %v", policy, d, err)
			}
			mend(t, f, s)
			time.Sleep(time.Minute)
			if n := testkit.Spent(t, s, p, "k"); n != 2 {
				t.Errorf("%v: %d units are spent, want 2", policy, n)
			}
		})
	}
}
