// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// admitted returns how many requests of n goroutines pass; each goroutine sends each requests.
func admitted(t *testing.T, s *memstore.Store, n, each int, request func(g, i int) sluice.Request) int {
	t.Helper()
	var passed atomic.Int64
	testkit.Together(t, n, func(g int) error {
		for i := range each {
			d, err := s.Take(t.Context(), request(g, i))
			if err != nil {
				return err
			}
			if d.Allowed {
				passed.Add(1)
			}
		}
		return nil
	})
	return int(passed.Load())
}

// TestContendedKeyWhileTimePasses advances the clock by the time of one unit before each take:
// exactly the refilled units are admitted, in whatever order goroutines read the clock and
// decide.
func TestContendedKeyWhileTimePasses(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	p := testkit.Plan(t, "s", "1000/s burst 100") // one unit a ms
	const goroutines, rounds = 64, 200
	// Empty to start with, so that no unit that falls due finds the bucket full
	// and is lost: no goroutine is more than one ms ahead of its takes.
	testkit.Take(t, s, testkit.Request(p, "k", 100))
	start := clock.Micros()
	passed := admitted(t, s, goroutines, rounds, func(g, i int) sluice.Request {
		if (g+i)%4 == 0 {
			clock.Advance(time.Millisecond)
		}
		return testkit.Request(p, "k", 1)
	})
	left := 0
	for testkit.Take(t, s, testkit.Request(p, "k", 1)).Allowed {
		left++
	}
	due := int(clock.Micros()-start) / 1000
	if passed+left != due {
		t.Errorf("got %d admitted and %d left, want %d in all", passed, left, due)
	}
}

// TestManyKeysWhileTablesGrow takes units of the same keys from all goroutines while the
// tables grow: no unit may be lost.
func TestManyKeysWhileTablesGrow(t *testing.T) {
	t.Parallel()
	const goroutines = 8
	keys := testkit.Steps(5_000, 20_000)
	s := memstore.New(memstore.Options{Now: testkit.NewClock().Now, MaxKeys: 4 * keys})
	for _, text := range []string{"5/h", "5/h fixed-window", "5/h sliding-log"} {
		p := testkit.Plan(t, text, text)
		got := admitted(t, s, goroutines, keys, func(g, i int) sluice.Request {
			return testkit.Request(p, fmt.Sprint((i+g*keys/goroutines/4)%keys), 1)
		})
		if got != 5*keys {
			t.Errorf("%s: got %d admitted, want %d", text, got, 5*keys)
		}
	}
	if st := s.Stats(); st.Evicted != 0 || st.States != 3*keys {
		t.Errorf("got %+v, want 3 states for each key and no eviction", st)
	}
}

// TestConcurrentOldAndNewPlan uses two limits of one name at once: in any interleaving the key
// gets no more than the larger one grants.
func TestConcurrentOldAndNewPlan(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{Now: testkit.NewClock().Now})
	plans := []*sluice.Plan{testkit.Plan(t, "s", "n: 500/h"), testkit.Plan(t, "s", "n: 500/h burst 500 debt 7")}
	if got := admitted(t, s, 8, 300, func(g, i int) sluice.Request { return testkit.Request(plans[(g+i)%2], "k", 1) }); got != 500 {
		t.Errorf("got %d admitted, want 500", got)
	}
}

// TestTakesWhileArraysAreReplaced takes units of a few keys while new keys flood their shard,
// so that its array is replaced and states are evicted all the
// time. They are the empty key under as many limits, which is not evicted: of
// each, exactly its quota must be admitted.
func TestTakesWhileArraysAreReplaced(t *testing.T) {
	t.Parallel()
	const keys, quota = 10, 2000
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: 300})
	light := testkit.Plan(t, "light", "1000/s")
	var plans [keys]*sluice.Plan
	for k := range keys {
		plans[k] = testkit.Plan(t, fmt.Sprint(k), fmt.Sprintf("%d/day", quota))
		testkit.Take(t, s, testkit.Request(plans[k], "", 100))
	}
	var admitted [keys]atomic.Int64
	testkit.Together(t, 8, func(g int) error {
		for i := range 8000 {
			req := testkit.Request(light, fmt.Sprint("stranger ", g, i), 1)
			if g%2 == 0 {
				req = testkit.Request(plans[i%keys], "", 1)
			}
			switch {
			case g%2 == 0 && i%100 == 7: // under the lock, too
				req.More = []sluice.Charge{testkit.Request(plans[(i+1)%keys], "", 1).Charge}
			case g == 1 && i%50 == 0:
				clock.Advance(200 * time.Microsecond) // some newcomers become idle
			}
			d, err := s.Take(t.Context(), req)
			if err != nil {
				return err
			}
			if d.Allowed && g%2 == 0 {
				admitted[i%keys].Add(1)
				if len(req.More) > 0 {
					admitted[(i+1)%keys].Add(1)
				}
			}
		}
		return nil
	})
	for k := range keys {
		if got := admitted[k].Load(); got != quota-100 {
			t.Errorf("key %d: got %d admitted, want %d", k, got, quota-100)
		}
	}
	if st := s.Stats(); st.Evicted == 0 {
		t.Errorf("got %+v, want evictions, or this tests nothing", st)
	}
}

// TestChangesWhileStatesDie takes under two limits of one name while states
// become idle and come to life again. Per second a key gets at most its burst and the refilled
// units, under whichever limit.
func TestChangesWhileStatesDie(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	plans := []*sluice.Plan{testkit.Plan(t, "s", "n: 10/s"), testkit.Plan(t, "s", "n: 10/s debt 3")}
	const rounds = 300
	for round := range rounds {
		got := admitted(t, s, 4, 10, func(g, i int) sluice.Request {
			return testkit.Request(plans[(g+i)%2*(round/3%2)], "k", 1) // in some rounds one limit alone
		})
		if got != 10 {
			t.Fatalf("round %d: got %d admitted, want 10", round, got)
		}
		clock.Advance(time.Duration(1+round%2*20_000) * time.Second) // now and then limits are forgotten
	}
}
