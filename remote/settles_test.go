// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// everyPolicy runs a test of holds under each failure policy.
func everyPolicy(t *testing.T, test func(*testing.T, *faulty, *remote.Store, *sluice.Plan)) {
	t.Helper()
	for _, policy := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal, sluice.FailClosed} {
		t.Run(policy.String(), func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Policy: policy})
				defer end(t, f, s)
				test(t, f, s, testkit.Plan(t, "api", "10000/day calendar UTC debt 10000"))
			})
		})
	}
}

// wantUsed waits until nothing is owed, and fails if the store does not count want units.
func wantUsed(t *testing.T, f *faulty, s *remote.Store, p *sluice.Plan, want int64) {
	t.Helper()
	for range 60 {
		if s.Stats().Owed == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	if st := s.Stats(); st.Owed != 0 || st.Dropped != 0 {
		t.Errorf("got %+v, want nothing owed", st)
	}
	if n := testkit.Spent(t, f.Store, p, "k"); n != want {
		t.Errorf("%d units are spent, want %d", n, want)
	}
}

// TestRepeatedSettleIsChargedOnce: a settle is charged once if its answer is lost and it is
// repeated while nothing can be sent to the store.
func TestRepeatedSettleIsChargedOnce(t *testing.T) {
	everyPolicy(t, func(t *testing.T, f *faulty, s *remote.Store, p *sluice.Plan) {
		held, _ := opened(t, s, p, 4000, "a")
		f.set(lost)
		if d, err := held.Settle(t.Context(), 1200); err == nil {
			t.Fatalf("got %+v, want an error", d)
		}
		f.set(unsent)
		for range 8 {
			if d, err := held.Settle(t.Context(), 1200); err != nil || !d.Degraded {
				t.Fatalf("got %+v, %v", d, err)
			}
		}
		mend(t, f, s)
		wantUsed(t, f, s, p, 1200)
		time.Sleep(2 * time.Minute)
		wantUsed(t, f, s, p, 1200)
	})
}

// TestSettleOfUnknownOutcomeIsSentAgain: a settle without an answer is sent when the store is
// back, so that the used units stay charged when the hold ends.
func TestSettleOfUnknownOutcomeIsSentAgain(t *testing.T) {
	for _, how := range []fault{erring, deaf, hung, lost, late} {
		t.Run(string(how), func(t *testing.T) {
			everyPolicy(t, func(t *testing.T, f *faulty, s *remote.Store, p *sluice.Plan) {
				held, _ := opened(t, s, p, 1000, "a")
				f.set(how)
				for range 8 {
					_, _ = held.Settle(t.Context(), 100) // outcome unknown, or owed
				}
				mend(t, f, s)
				time.Sleep(2 * time.Minute)
				wantUsed(t, f, s, p, 100)
			})
		})
	}
}

// TestSettleOfACallerThatLeft: a settle is sent again although its caller has left.
func TestSettleOfACallerThatLeft(t *testing.T) {
	everyPolicy(t, func(t *testing.T, f *faulty, s *remote.Store, p *sluice.Plan) {
		held, _ := opened(t, s, p, 1000, "a")
		f.set(deaf)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if d, err := held.Settle(ctx, 100); err == nil {
			t.Fatalf("got %+v, want the error of the context", d)
		}
		mend(t, f, s)
		time.Sleep(2 * time.Minute)
		wantUsed(t, f, s, p, 100)
	})
}

// TestLocalHoldIsOwedWhenSettled: the store is owed the units that a hold of this process has
// used. It is owed nothing before the settle, and nothing if the hold ends by itself.
func TestLocalHoldIsOwedWhenSettled(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10000/day calendar UTC debt 10000")
		f.set(unsent)
		held, _ := opened(t, s, p, 4000, "a")
		opened(t, s, p, 3000, "never settled")
		mend(t, f, s)
		time.Sleep(time.Second)
		wantUsed(t, f, s, p, 0)
		if d, err := held.Settle(t.Context(), 100); err != nil || d.Spent != 100 {
			t.Errorf("got %+v, %v", d, err)
		}
		wantUsed(t, f, s, p, 100)
		wantSettled(t, held, 100, sluice.HoldSettled)
		time.Sleep(2 * time.Minute)
		wantUsed(t, f, s, p, 100)
	})
}

// TestTakeOfAnIDIsOwedOnce: a take with an id that is never settled is owed once, also if it
// is repeated in a second outage.
func TestTakeOfAnIDIsOwedOnce(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "100/h sliding-log")
		req := testkit.Request(p, "k", 7)
		req.Hold = &sluice.Hold{ID: "a", TTL: time.Hour, Settled: true}
		for range 3 {
			f.set(unsent)
			for range 2 {
				if d := testkit.Take(t, s, req); !d.Allowed || !d.Degraded {
					t.Fatalf("got %+v", d)
				}
			}
			mend(t, f, s)
			wantUsed(t, f, s, p, 7)
		}
	})
}

// TestSettlesAreBounded: settles without room, and settles that the store does not answer, are
// dropped and do not keep requests from the store.
func TestSettlesAreBounded(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{MaxOwed: 2})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "10000/day calendar UTC debt 10000")
		f.set(unsent)
		for i := range 5 {
			held, _ := opened(t, s, p, 10, fmt.Sprint(i))
			wantSettled(t, held, 10, 0)
		}
		if st := s.Stats(); st.Owed != 2 || st.Dropped != 30 {
			t.Errorf("got %+v, want 2 owed and 30 dropped", st)
		}
		f.mu.Lock()
		f.refuses = sluice.OpSettle
		f.mu.Unlock()
		mend(t, f, s)
		time.Sleep(time.Minute)
		if st := s.Stats(); st.Owed != 0 || st.Dropped != 50 || !st.Healthy {
			t.Errorf("got %+v, want the others dropped", st)
		}
	})
}

// TestResetForgetsSettles: units that a key used before its reset are not charged after it.
func TestResetForgetsSettles(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailOpen, Probe: time.Hour})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "100/h sliding-log")
		f.set(unsent)
		held, _ := opened(t, s, p, 6, "a")
		wantSettled(t, held, 6, 0)
		time.Sleep(time.Second) // the first attempt has failed
		f.set(none)
		reset := testkit.Request(p, "k", 0)
		reset.Op = sluice.OpReset
		testkit.Take(t, s, reset)
		time.Sleep(2 * time.Hour)
		wantUsed(t, f, s, p, 0)
	})
}

// TestSettleOfSeveralKeys: a settle that is sent later settles the hold under all its keys.
func TestSettleOfSeveralKeys(t *testing.T) {
	everyPolicy(t, func(t *testing.T, f *faulty, s *remote.Store, p *sluice.Plan) {
		other := testkit.Plan(t, "other", "10000/day calendar UTC debt 10000")
		req := testkit.Request(p, "k", 4000)
		req.More = []sluice.Charge{{Plan: other, Key: "k", Cost: 3000}}
		req.Hold = &sluice.Hold{ID: "a", TTL: time.Minute}
		testkit.Take(t, s, req)
		f.set(unsent)
		req.Op, req.Cost, req.Counted = sluice.OpSettle, 1200, 4000
		req.More = []sluice.Charge{{Plan: other, Key: "k", Cost: 700, Counted: 3000}}
		testkit.Take(t, s, req)
		mend(t, f, s)
		time.Sleep(2 * time.Minute)
		wantUsed(t, f, s, p, 1200)
		wantUsed(t, f, s, other, 700)
	})
}
