// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestFloodOfEveryOperation floods a store with every operation: only a denial or an
// allowed take changes the class of a denied key.
func TestFloodOfEveryOperation(t *testing.T) {
	t.Parallel()
	const locked = 20
	maxKeys := testkit.Steps(100, 1000)
	p := testkit.Plan(t, "login", "5/15min sliding-log")
	word := testkit.Plan(t, "word", "5/15min")
	window := testkit.Plan(t, "window", "5/15min fixed-window")
	floods := map[string]func(s *memstore.Store, clock *testkit.Clock, key string, i int) []sluice.Request{
		"peeks of cost 0": func(_ *memstore.Store, _ *testkit.Clock, key string, _ int) []sluice.Request {
			return []sluice.Request{{Op: sluice.OpPeek, Charge: testkit.Request(p, key, 0).Charge}, testkit.Request(p, key, 1), {Op: sluice.OpPeek, Charge: testkit.Request(word, key, 1).Charge}}
		},
		"peeks of locked keys": func(_ *memstore.Store, _ *testkit.Clock, key string, i int) []sluice.Request {
			k := fmt.Sprint("locked ", i%locked)
			return []sluice.Request{{Op: sluice.OpPeek, Charge: testkit.Request(p, k, 1).Charge}, {Op: sluice.OpPeek, Charge: testkit.Request(word, k, 0).Charge}, testkit.Request(p, key, 1)}
		},
		"takes of cost 0": func(_ *memstore.Store, _ *testkit.Clock, key string, i int) []sluice.Request {
			k := fmt.Sprint("locked ", i%locked)
			return []sluice.Request{testkit.Request(p, key, 0), testkit.Request(p, k, 0), testkit.Request(word, k, 0), testkit.Request(word, key, 1)}
		},
		"reservations": func(_ *memstore.Store, _ *testkit.Clock, key string, _ int) []sluice.Request {
			return []sluice.Request{{Op: sluice.OpReserve, Charge: testkit.Request(word, key, 5).Charge, MaxWait: time.Hour}, {Op: sluice.OpReserve, Charge: testkit.Request(word, key, 5).Charge, MaxWait: time.Hour}}
		},
		"refunds": func(_ *memstore.Store, clock *testkit.Clock, key string, i int) []sluice.Request {
			at := sluice.InstantOf(clock.Now())
			// Refunds of locked keys too, of instants at which they spent nothing.
			k := fmt.Sprint("locked ", i%locked)
			return []sluice.Request{testkit.Request(p, key, 2), {Op: sluice.OpRefund, Charge: testkit.Request(p, key, 1).Charge, At: at}, {Op: sluice.OpRefund, Charge: testkit.Request(p, k, 1).Charge, At: 1}, {Op: sluice.OpRefund, Charge: testkit.Request(window, k, 1).Charge, At: 1}}
		},
		"charges": func(_ *memstore.Store, _ *testkit.Clock, key string, i int) []sluice.Request {
			k := fmt.Sprint("locked ", i%locked)
			return []sluice.Request{{Op: sluice.OpCharge, Charge: testkit.Request(p, k, 1).Charge}, {Op: sluice.OpCharge, Charge: testkit.Request(word, k, 1).Charge}, {Op: sluice.OpCharge, Charge: testkit.Request(word, key, 1).Charge}}
		},
		"resets": func(_ *memstore.Store, _ *testkit.Clock, key string, _ int) []sluice.Request {
			return []sluice.Request{testkit.Request(p, key, 1), {Op: sluice.OpReset, Charge: testkit.Request(p, key, 0).Charge}, testkit.Request(p, key, 1)}
		},
		"as many as there are": func(_ *memstore.Store, _ *testkit.Clock, key string, _ int) []sluice.Request {
			return []sluice.Request{{Op: sluice.OpTakeUpTo, Charge: testkit.Request(word, key, 3).Charge}, {Op: sluice.OpTakeUpTo, Charge: testkit.Request(p, key, 3).Charge}}
		},
		"two keys at once": func(_ *memstore.Store, _ *testkit.Clock, key string, i int) []sluice.Request {
			req := testkit.Request(p, key, 1)
			req.More = []sluice.Charge{testkit.Request(word, key, 1).Charge, testkit.Request(window, fmt.Sprint("locked ", i%locked), 0).Charge}
			return []sluice.Request{req}
		},
		"costs that never fit": func(_ *memstore.Store, _ *testkit.Clock, key string, _ int) []sluice.Request {
			return []sluice.Request{testkit.Request(p, key, 1), testkit.Request(p, key, 9), testkit.Request(word, key, 1), testkit.Request(word, key, 9)}
		},
	}
	for name, requests := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
			plans := []*sluice.Plan{p, word, window}
			for _, p := range plans {
				lockAll(t, s, p, locked)
			}
			for i := range 10 * maxKeys {
				for _, req := range requests(s, clock, fmt.Sprint("stranger ", i), i) {
					testkit.Take(t, s, req)
				}
				if i%50 == 0 {
					clock.Advance(time.Microsecond)
				}
			}
			for _, p := range plans {
				if got := freed(t, s, p, locked); got != 0 {
					t.Errorf("%s: got %d of %d locked keys freed, want none", p.Scope(), got, locked)
				}
			}
		})
	}
}

// TestFloodOfAPlanOfTwo: a key that one limit of its plan denies stays denied, and a key
// whose request another key denied is not shielded.
func TestFloodOfAPlanOfTwo(t *testing.T) {
	t.Parallel()
	const locked = 20
	maxKeys := testkit.Steps(100, 1000)
	for _, l := range [][2]string{{"a: 5/15min", "b: 100/day"}, {"a: 100/min", "b: 5/day sliding-log"}, {"a: 100/day fixed-window", "b: 5/15min sliding-counter"}} {
		t.Run(l[0]+", "+l[1], func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
			p := testkit.Plan(t, "login", l[0], l[1])
			lockAll(t, s, p, locked)
			flood(t, s, clock, p, 10*maxKeys, 1)
			if got := freed(t, s, p, locked); got != 0 {
				t.Errorf("got %d of %d locked keys freed, want none", got, locked)
			}
		})
	}
	t.Run("denied for another key", func(t *testing.T) {
		t.Parallel()
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
		ip, user := testkit.Plan(t, "ip", "5/15min"), testkit.Plan(t, "user", "5/15min sliding-log")
		lockAll(t, s, user, locked)
		lock(t, s, ip, "attacker")
		for i := range 10 * maxKeys {
			key := fmt.Sprint("stranger ", i)
			testkit.Take(t, s, testkit.Request(user, key, 1))
			req := testkit.Request(user, key, 1)
			req.More = []sluice.Charge{testkit.Request(ip, "attacker", 1).Charge}
			if testkit.Take(t, s, req).Allowed {
				t.Fatal("got allowed, want denied by ip")
			}
		}
		if got := freed(t, s, user, locked); got != 0 {
			t.Errorf("got %d of %d locked keys freed, want none: the flood's keys were not what denied", got, locked)
		}
	})
}

// TestFloodOfManyKeysWithoutAKey: limits without a key take no more than a
// quarter of the room from others.
func TestFloodOfManyKeysWithoutAKey(t *testing.T) {
	t.Parallel()
	const maxKeys = 400
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	p := testkit.Plan(t, "login", "5/15min sliding-log")
	lockAll(t, s, p, 20)
	for i := range 3 * maxKeys {
		testkit.Take(t, s, testkit.Request(testkit.Plan(t, fmt.Sprint("rule ", i), []string{"5/15min", "5/15min fixed-window"}[i%2]), "", 1))
	}
	if got := freed(t, s, p, 20); got != 0 {
		t.Errorf("got %d of 20 locked keys freed, want none", got)
	}
	kept := 0
	for i := range 3 * maxKeys {
		peek := testkit.Request(testkit.Plan(t, fmt.Sprint("rule ", i), []string{"5/15min", "5/15min fixed-window"}[i%2]), "", 0)
		peek.Op = sluice.OpPeek
		if testkit.Take(t, s, peek).Remaining == 4 && i < maxKeys/4 {
			kept++
		}
	}
	if kept < maxKeys/4-1 {
		t.Errorf("got %d of the first %d limits kept, want all", kept, maxKeys/4)
	}
}

// TestSlotsSurviveAFlood: new keys do not make room for a caller that was denied a slot.
func TestSlotsSurviveAFlood(t *testing.T) {
	t.Parallel()
	maxKeys := testkit.Steps(100, 1000)
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	acquire := func(key, owner string) bool {
		t.Helper()
		d, err := s.Slot(t.Context(), sluice.SlotRequest{Op: sluice.SlotAcquire, Scope: "s", Key: key, Owner: owner, Cost: 1, Limit: sluice.SlotLimit{Name: "n", Cap: 2, TTL: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	for _, key := range []string{"", "full"} {
		for i := range 3 {
			if got := acquire(key, fmt.Sprint(i)); got != (i < 2) {
				t.Fatalf("key %q, owner %d: got %t", key, i, got)
			}
		}
	}
	for i := range 10 * maxKeys {
		acquire(fmt.Sprint("stranger ", i), "o")
	}
	for _, key := range []string{"", "full"} {
		if acquire(key, "late") {
			t.Errorf("key %q: got a third slot of 2", key)
		}
	}
}

// TestFloodByManyGoroutines floods a store from many goroutines while locked keys keep trying.
func TestFloodByManyGoroutines(t *testing.T) {
	t.Parallel()
	const maxKeys, locked, goroutines = 1000, 20, 8
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	var plans []*sluice.Plan
	for _, l := range lockable {
		p := testkit.Plan(t, l, l)
		plans = append(plans, p)
		lockAll(t, s, p, locked)
	}
	testkit.Together(t, goroutines, func(g int) error {
		for i := range 4 * maxKeys {
			p := plans[(g+i)%len(plans)]
			if _, err := s.Take(t.Context(), testkit.Request(p, fmt.Sprint("stranger ", g, i), 1)); err != nil {
				return err
			}
			if i%16 == 0 {
				if _, err := s.Take(t.Context(), testkit.Request(p, fmt.Sprint("locked ", i%locked), 1)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, p := range plans {
		if got := freed(t, s, p, locked); got != 0 {
			t.Errorf("%s: got %d of %d locked keys freed, want none", p.Scope(), got, locked)
		}
	}
	if st := s.Stats(); st.States > maxKeys*5/4 {
		t.Errorf("got %d states, want at most a quarter more than %d", st.States, maxKeys)
	}
}

// TestFloodAfterARestart: denied states and those of the empty key keep their class.
func TestFloodAfterARestart(t *testing.T) {
	t.Parallel()
	const maxKeys, locked = 1000, 20
	clock := testkit.NewClock()
	before, s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now}), memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	var snapshot bytes.Buffer
	var plans []*sluice.Plan
	for _, l := range lockable {
		p := testkit.Plan(t, l, l)
		plans = append(plans, p)
		lockAll(t, before, p, locked)
		testkit.Take(t, before, testkit.Request(p, "", p.Term(0).Full-p.Term(0).InitialDeficit))
	}
	if err := before.Snapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(&snapshot); err != nil {
		t.Fatal(err)
	}
	flood(t, s, clock, testkit.Plan(t, "other", "5/15min sliding-log"), 10*maxKeys, 1)
	for _, p := range plans {
		if got := freed(t, s, p, locked); got != 0 {
			t.Errorf("%s: got %d of %d locked keys freed, want none", p.Scope(), got, locked)
		}
		if testkit.Take(t, s, testkit.Request(p, "", 1)).Allowed {
			t.Errorf("%s without a key: got allowed, want denied", p.Scope())
		}
	}
}
