// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/remote"
)

// seats are two slots for each key, held for an hour.
var seats = sluice.SlotLimit{Name: "seats", Cap: 2, TTL: time.Hour}

func slot(op sluice.SlotOp, owner string) sluice.SlotRequest {
	return sluice.SlotRequest{Op: op, Scope: "room", Limit: seats, Key: "k", Owner: owner, Cost: 1}
}

// ask asks for slots and fails on an error.
func ask(t *testing.T, s sluice.SlotStore, op sluice.SlotOp, owner string) sluice.SlotDecision {
	t.Helper()
	d, err := s.Slot(context.Background(), slot(op, owner))
	if err != nil {
		t.Fatalf("slot operation %d of %s: %v", op, owner, err)
	}
	return d
}

// held returns how many slots the wrapped store holds.
func held(t *testing.T, f *faulty) int64 {
	t.Helper()
	return ask(t, f.Store, sluice.SlotRelease, "nobody").Held
}

// settled waits until all releases are sent.
func settled(t *testing.T, s *remote.Store) {
	t.Helper()
	for began := time.Now(); s.Stats().Unreleased > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d slots are not released", s.Stats().Unreleased)
		}
	}
	time.Sleep(time.Second) // the last may be on its way
}

// While the store is unavailable its policy grants slots; the requests of their owners
// reach the store on its return, whatever its failure was.
func TestSlotsInAnOutage(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy sluice.Failure
		nodes  int
		want   int // granted of 5 requests during the outage
	}{
		{"open", sluice.FailOpen, 1, 5},
		{"local", sluice.FailLocal, 1, 2},
		{"local of four nodes", sluice.FailLocal, 4, 1},
		{"closed", sluice.FailClosed, 1, 0},
	} {
		for _, wrong := range []fault{erring, hung, lost, deaf} {
			t.Run(c.name+", "+string(wrong), func(t *testing.T) {
				both(t, func(t *testing.T, f *faulty) {
					s := wrap(t, f, remote.Options{Policy: c.policy, Nodes: func() int { return c.nodes }})
					defer end(t, f, s)
					outage(t, f, s, wrong, c.policy, c.want)
				})
			})
		}
	}
}

func outage(t *testing.T, f *faulty, s *remote.Store, wrong fault, policy sluice.Failure, want int) {
	t.Helper()
	for _, owner := range []string{"ann", "bob"} {
		if d := ask(t, s, sluice.SlotAcquire, owner); !d.Allowed || d.Degraded {
			t.Fatalf("%s: %+v", owner, d)
		}
	}
	if d := ask(t, s, sluice.SlotAcquire, "cid"); d.Allowed {
		t.Fatal("a third of two slots")
	}
	bring(t, f, s, wrong)
	if d := ask(t, s, sluice.SlotRelease, "ann"); !d.Degraded {
		t.Error("a release is not reported to be degraded")
	}
	var got []string
	for i := range 5 {
		owner := fmt.Sprint("o", i)
		began := time.Now()
		d, err := s.Slot(t.Context(), slot(sluice.SlotAcquire, owner))
		if took := time.Since(began); took > bounds.DefaultTimeout {
			t.Errorf("an answer after %v", took)
		}
		_, unavailable := errors.AsType[*remote.UnavailableError](err)
		if unavailable != (policy == sluice.FailClosed) || err != nil && !unavailable {
			t.Fatal(err)
		}
		if err == nil && (!d.Degraded || !d.Allowed && d.RetryAfter == 0) {
			t.Errorf("%+v", d)
		}
		if d.Allowed {
			got = append(got, owner)
		}
	}
	if len(got) != want {
		t.Errorf("%d got slots, want %d", len(got), want)
	}
	if _, err := s.Slot(t.Context(), slot(sluice.SlotRenew, "bob")); (err != nil) != (policy == sluice.FailClosed) {
		t.Errorf("a renewal: %v", err)
	}
	mend(t, f, s)
	settled(t, s)
	if n := held(t, f); n != 1 {
		t.Errorf("the store holds %d slots, want bob's", n)
	}
	for _, owner := range got { // slots that the policy granted end with the outage
		if d := ask(t, s, sluice.SlotRenew, owner); !d.Allowed {
			t.Errorf("%s: a slot of the policy is lost when the store is available again", owner)
		}
		ask(t, s, sluice.SlotRelease, owner)
	}
	ask(t, s, sluice.SlotRelease, "bob")
	settled(t, s)
	if n := held(t, f); n != 0 {
		t.Errorf("the store holds %d slots when all are released", n)
	}
	if d := ask(t, s, sluice.SlotAcquire, "dan"); !d.Allowed || d.Degraded || d.Held != 1 {
		t.Errorf("afterwards: %+v", d)
	}
}

// A slot whose grant was not received does not stay held.
func TestSlotsGrantedUnheard(t *testing.T) {
	for _, policy := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal, sluice.FailClosed} {
		for _, wrong := range []fault{lost, late, slow} {
			t.Run(policy.String()+", "+string(wrong), func(t *testing.T) {
				both(t, func(t *testing.T, f *faulty) {
					s := wrap(t, f, remote.Options{Policy: policy})
					defer end(t, f, s)
					f.set(wrong)
					d, err := s.Slot(t.Context(), slot(sluice.SlotAcquire, "ann"))
					if (err == nil) != (policy != sluice.FailClosed) || err == nil && !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					time.Sleep(2 * slowness)
					f.set(none)
					time.Sleep(time.Minute)
					want := int64(0)
					if policy != sluice.FailClosed {
						want = 1 // the owner runs
					}
					if n := held(t, f); n != want {
						t.Errorf("the store holds %d slots, want %d", n, want)
					}
					if policy != sluice.FailClosed {
						ask(t, s, sluice.SlotRelease, "ann")
					}
					settled(t, s)
					if n := held(t, f); n != 0 {
						t.Errorf("the store holds %d slots in the end", n)
					}
				})
			})
		}
	}
}

// An owner that is done is done in the store, too, even if its acquire arrives there later; one
// that begins anew keeps its new slot.
func TestSlotsGrantedLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy sluice.Failure
		after  sluice.SlotOp // the owner's operation after its first request is decided
		want   int64         // slots held in the end
	}{
		{"let through, and done", sluice.FailOpen, sluice.SlotRelease, 0},
		{"refused, and back", sluice.FailClosed, sluice.SlotAcquire, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Policy: c.policy})
				defer end(t, f, s)
				f.set(slow)
				if _, err := s.Slot(t.Context(), slot(sluice.SlotAcquire, "ann")); (err != nil) != (c.policy == sluice.FailClosed) {
					t.Fatal(err)
				}
				f.set(none)
				time.Sleep(slowness / 2)
				ask(t, s, c.after, "ann")
				time.Sleep(slowness)
				settled(t, s)
				if n := held(t, f); n != c.want {
					t.Errorf("the store holds %d slots, want %d", n, c.want)
				}
			})
		})
	}
}

// A slot granted by a policy in an outage does not replace the store's decisions afterwards.
func TestSlotPeekAfterAnOutage(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal})
		defer end(t, f, s)
		bring(t, f, s, erring)
		ask(t, s, sluice.SlotAcquire, "ann")
		mend(t, f, s)
		ask(t, s, sluice.SlotAcquire, "bob")
		ask(t, s, sluice.SlotAcquire, "cid")
		if d := ask(t, s, sluice.SlotPeek, ""); d.Allowed || d.Degraded || d.Held != 2 {
			t.Errorf("%+v, want the store's two slots held", d)
		}
	})
}

// Without a store for slots, FailOpen grants all slots and FailLocal none.
func TestSlotsWithoutLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		s, err := remote.Wrap(strict{f, f}, remote.Options{SlotPolicyOf: func(scope string) sluice.Failure {
			if scope == "room" {
				return sluice.FailOpen
			}
			return sluice.FailLocal
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, f, s)
		bring(t, f, s, lost)
		for _, op := range []sluice.SlotOp{sluice.SlotAcquire, sluice.SlotRenew, sluice.SlotPeek, sluice.SlotRelease} {
			if d := ask(t, s, op, "ann"); !d.Allowed || !d.Degraded {
				t.Errorf("operation %d: %+v", op, d)
			}
		}
		other := slot(sluice.SlotAcquire, "ann")
		other.Scope = "hall"
		if d, err := s.Slot(t.Context(), other); err == nil {
			t.Errorf("local: %+v", d)
		}
		mend(t, f, s)
		settled(t, s)
		if n := held(t, f); n != 0 {
			t.Errorf("the store holds %d slots", n)
		}
	})
}

// The slots of each scope have a policy of their own.
func TestSlotPolicyOf(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{SlotPolicyOf: func(scope string) sluice.Failure {
			if scope == "room" {
				return sluice.FailClosed
			}
			return sluice.FailOpen
		}})
		defer end(t, f, s)
		f.set(erring)
		if _, err := s.Slot(t.Context(), slot(sluice.SlotAcquire, "ann")); err == nil {
			t.Error("closed: granted")
		}
		other := slot(sluice.SlotAcquire, "ann")
		other.Scope = "hall"
		if d, err := s.Slot(t.Context(), other); err != nil || !d.Allowed {
			t.Errorf("open: %+v, %v", d, err)
		}
	})
}

// plainStore is a store without slots.
type plainStore struct{ sluice.Store }

func TestSlotsThatAreNotDecided(t *testing.T) {
	for _, c := range []struct {
		name  string
		store sluice.Store
		req   sluice.SlotRequest
		close bool
		want  error // nil: any
	}{
		{"no slots", plainStore{newFaulty()}, slot(sluice.SlotAcquire, "ann"), false, nil},
		{"not valid", newFaulty(), sluice.SlotRequest{}, false, nil},
		{"closed", newFaulty(), slot(sluice.SlotAcquire, "ann"), true, sluice.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := wrap(t, c.store, remote.Options{Policy: sluice.FailOpen})
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if c.close {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Slot(t.Context(), c.req); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}
