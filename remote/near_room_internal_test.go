// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestFloodSparesUnitsInHand: a flood of denied keys takes no more room than allowed, and
// removes no leased unit.
func TestFloodSparesUnitsInHand(t *testing.T) {
	const room = 64
	leased, flood := testkit.Plan(t, "leased", "1000/h sliding-log"), testkit.Plan(t, "flood", "1/h")
	w := newCached(Options{MaxKeys: room, Lease: leasing(sluice.LeaseTerms{TTL: time.Minute, Units: 10}, leased)})
	w.store.Store = memstore.New(memstore.Options{Now: w.clock.Now})
	for range 12 {
		testkit.Take(t, w.cache, testkit.Request(leased, "hot", 1))
	}
	l := w.cache.leases()
	in := int(l.Leased - l.Allowed)
	if in < 2 {
		t.Fatalf("%+v: want units in hand", l)
	}
	for i := range 20_000 {
		testkit.Take(t, w.cache, testkit.Request(flood, fmt.Sprint(i), 1))
		if i%5_000 == 0 {
			if n := w.cache.remembered(); n > room {
				t.Fatalf("%d entries, at most %d", n, room)
			}
		}
	}
	if d := w.cache.denials(); d.Evicted < 10_000 {
		t.Errorf("%+v: want the flood to have evicted itself", d)
	}
	before := w.store.Asked()
	for range in {
		if d := testkit.Take(t, w.cache, testkit.Request(leased, "hot", 1)); !d.Allowed {
			t.Errorf("after the flood: %+v", d)
		}
	}
	if asked := w.store.Asked() - before; asked != 0 {
		t.Errorf("%d of the %d units in hand had to be asked for", asked, in)
	}
	if n := w.cache.leases().Lost; n != 0 {
		t.Errorf("%d units lost", n)
	}
}

// TestFloodOfLeasedKeys: keys in use are not forgotten for others, and units that could not be
// given back in time are counted.
func TestFloodOfLeasedKeys(t *testing.T) {
	leased := testkit.Plan(t, "leased", "1000/h sliding-log")
	w := newCached(Options{MaxKeys: 32, Lease: always(sluice.LeaseTerms{TTL: 10 * time.Millisecond, Units: 10})})
	w.store.Store = memstore.New(memstore.Options{Now: w.clock.Now})
	for round := range 4 {
		for i := range 200 {
			for range 2 { // the second time leases one more
				testkit.Take(t, w.cache, testkit.Request(leased, fmt.Sprint(round, " ", i), 1))
			}
		}
		if n := w.cache.remembered(); n > 32 {
			t.Errorf("%d entries, at most 32", n)
		}
		if l := w.cache.leases(); l.Untracked == 0 || l.Lost > l.Leased {
			t.Errorf("round %d: %+v", round, l)
		}
		w.clock.Advance(time.Second)
	}
	if err := w.cache.giveBack(t.Context()); err != nil {
		t.Error(err)
	}
	l := w.cache.leases()
	if l.Lost == 0 || l.Leased != l.Allowed+l.Lost+l.Returned {
		t.Errorf("%+v: want each unit spent, lost or returned", l)
	}
	var spent uint64
	under, err := w.cache.infoOf(leased)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		for i := range 200 {
			spent += uint64(testkit.Spent(t, w.store.Store, under.plan, fmt.Sprint(round, " ", i)))
		}
	}
	if spent != 4*200*2+l.Lost {
		t.Errorf("%d units count: want the %d that were taken and the %d lost", spent, 4*200*2, l.Lost)
	}
}

// TestLeaseOnItsWay: a key with units on their way keeps its place, so that every lost unit is
// counted.
func TestLeaseOnItsWay(t *testing.T) {
	leased, flood := testkit.Plan(t, "leased", "1000/h sliding-log"), testkit.Plan(t, "flood", "1/h")
	w := newCached(Options{MaxKeys: -1, Lease: leasing(sluice.LeaseTerms{TTL: 10 * time.Millisecond, Units: 10}, leased)})
	slow := false
	w.store.After = func(req sluice.Request, _ sluice.Result) error {
		if slow && req.Plan.Scope() == "leased" {
			slow = false
			w.clock.Advance(time.Second)
			testkit.Take(t, w.cache, testkit.Request(flood, "other", 1))
		}
		return nil
	}
	testkit.Take(t, w.cache, testkit.Request(leased, "k", 1))
	slow = true
	testkit.Take(t, w.cache, testkit.Request(leased, "k", 1))
	if slow || w.cache.leases().Leased == 0 {
		t.Fatal("no units were on their way")
	}
	if err := w.cache.giveBack(t.Context()); err != nil {
		t.Error(err)
	}
	if l := w.cache.leases(); l.Leased != l.Allowed+l.Returned+l.Lost {
		t.Errorf("%+v: want each unit spent, lost or returned", l)
	}
}

// TestNothingIsLeft: entries that remember nothing are removed when their last call is back,
// and few are kept for reuse.
func TestNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := testkit.Plan(t, "api", "10/s")
		gate := make(chan struct{})
		store := &testkit.Store{Store: memstore.New(memstore.Options{}), Before: func(context.Context, sluice.Request) error {
			<-gate
			return errLost
		}}
		s := newNearStore(store, Options{})
		calls := testkit.Steps(1000, 10_000)
		failed := make(chan error, calls)
		for i := range calls {
			go func() {
				_, err := s.Take(t.Context(), testkit.Request(plan, fmt.Sprint(i), 1))
				failed <- err
			}()
		}
		synctest.Wait()
		if n := s.remembered(); n != calls {
			t.Errorf("%d entries with %d calls on their way", n, calls)
		}
		close(gate)
		for range calls {
			if err := <-failed; !errors.Is(err, errLost) {
				t.Fatal(err)
			}
		}
		if n := s.remembered(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		for i := range s.shards {
			if sh := &s.shards[i]; len(sh.idle) > mostIdle || sh.kept != 0 {
				t.Fatalf("a shard keeps %d for later and counts %d", len(sh.idle), sh.kept)
			}
		}
	})
}

// TestReload: leased units of limits that are no longer in use do not pile up.
func TestReload(t *testing.T) {
	w := newCached(Options{Lease: always(sluice.LeaseTerms{TTL: 10 * time.Millisecond, Units: 10})})
	for quota := range 50 {
		plan := testkit.Plan(t, "api", fmt.Sprintf("x: %d/h sliding-log", 1000+quota))
		for range 5 {
			testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
		}
		w.clock.Advance(time.Second)
		testkit.Take(t, w.cache, testkit.Request(plan, "k", 1)) // gives back
		w.clock.Advance(time.Second)
	}
	if l := w.cache.leases(); l.Lost == 0 || l.Leased > l.Allowed+l.Lost+l.Returned+10 {
		t.Errorf("%+v: want what no one has any more returned or lost", l)
	}
	holds := 0
	for i := range w.cache.shards {
		for _, e := range w.cache.shards[i].entries {
			for h := e.leases; h != nil; h = h.next {
				holds++
			}
		}
	}
	if holds > 2 {
		t.Errorf("%d holds of one key", holds)
	}
}
