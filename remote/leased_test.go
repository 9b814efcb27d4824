// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// leasing leases the plans of scope "leased", four units at a time.
func leasing(p *sluice.Plan) (sluice.LeaseTerms, bool) {
	return sluice.LeaseTerms{TTL: 10 * time.Second, Units: 4}, p.Scope() == "leased"
}

// TestLeasedPlanInAnOutage: a policy decides under the limits of the plan; units that it
// admitted are charged under the limits sent to the store, and leased units are not used while
// the store is unavailable.
func TestLeasedPlanInAnOutage(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Lease: leasing})
		defer end(t, f, s)
		p := testkit.Plan(t, "leased", "100/min sliding-log")
		stricter, _, err := p.Lease(sluice.LeaseTerms{TTL: 10 * time.Second, Units: 4})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			testkit.Take(t, s, testkit.Request(p, "k", 1))
		}
		before := testkit.Spent(t, f.Store, stricter, "k")
		if st := s.Stats().Leases; st.Leased == 0 || before != 20+int64(st.Leased)-int64(st.Allowed) {
			t.Fatalf("%+v: the store counts %d units", st, before)
		}
		bring(t, f, s, erring)
		for range 7 {
			if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || !d.Degraded {
				t.Fatalf("%+v", d)
			}
		}
		mend(t, f, s)
		if got := testkit.Spent(t, f.Store, stricter, "k") - before; got != 7 {
			t.Errorf("%d units charged, want 7; %+v", got, s.Stats())
		}
		if err := s.Return(t.Context()); err != nil {
			t.Error(err)
		}
		if got := testkit.Spent(t, f.Store, stricter, "k"); got != 27 {
			t.Errorf("the store counts %d units when all are returned, want 27; %+v", got, s.Stats())
		}
	})
}

// TestDenialInAnOutage: a remembered denial is not used while the store is unavailable, and a
// late answer that is given back is not remembered.
func TestDenialInAnOutage(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "1/h")
		testkit.Take(t, s, testkit.Request(p, "k", 1))
		for range 3 {
			if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed || d.Degraded {
				t.Fatalf("%+v, want it denied", d)
			}
		}
		if st := s.Stats(); st.Denied == 0 || st.Decided != 4 {
			t.Errorf("%+v: want denials answered from memory", st)
		}
		bring(t, f, s, erring)
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || !d.Degraded {
			t.Errorf("in the outage: %+v", d)
		}
	})
}

// TestGivenBackIsForgotten: units that are given back late are available again at once.
func TestGivenBackIsForgotten(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailClosed})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "1/h")
		f.set(tardy)
		if d, err := s.Take(t.Context(), testkit.Request(p, "k", 1)); err == nil {
			t.Fatalf("%+v", d)
		}
		f.set(none)
		time.Sleep(tardiness / 4)
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Allowed {
			t.Fatalf("%+v, want it denied by what the first has spent", d)
		}
		time.Sleep(tardiness)
		if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); !d.Allowed || d.Degraded || s.Stats().GivenBack != 1 {
			t.Errorf("%+v, want it allowed; %+v", d, s.Stats())
		}
	})
}

// TestReturnToAHungStore: giving back leased units ends in time although its caller has no
// deadline.
func TestReturnToAHungStore(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Lease: leasing})
		defer end(t, f, s)
		p := testkit.Plan(t, "leased", "100/min sliding-log")
		for range 18 {
			testkit.Take(t, s, testkit.Request(p, "k", 1))
		}
		f.set(hung)
		began := time.Now()
		if err := s.Return(context.Background()); err == nil {
			t.Error("nothing was given back, and no error")
		}
		if took := time.Since(began); took > bounds.DefaultTimeout {
			t.Errorf("an answer after %v", took)
		}
		if st := s.Stats().Leases; st.Lost == 0 {
			t.Errorf("%+v: want units lost", st)
		}
	})
}

// TestLeasesOfAHungStore: no caller waits for another's answer beyond the deadline, and no
// call stays in flight.
func TestLeasesOfAHungStore(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailClosed, Lease: leasing, Failures: 1000})
		defer end(t, f, s)
		p := testkit.Plan(t, "leased", "100/min sliding-log")
		for range 20 {
			testkit.Take(t, s, testkit.Request(p, "k", 1))
		}
		time.Sleep(8 * time.Second) // the next take must give back the leased units
		f.set(hung)
		done := make(chan struct{})
		for range 20 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 5 {
					began := time.Now()
					_, err := s.Take(context.Background(), testkit.Request(p, "k", 1))
					if _, refused := errors.AsType[*remote.UnavailableError](err); !refused && err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > bounds.DefaultTimeout {
						t.Errorf("an answer after %v", took)
					}
				}
			}()
		}
		for range 20 {
			<-done
		}
	})
}
