// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// flood sends takes of cost by n new keys, and advances the clock.
func flood(t *testing.T, s *memstore.Store, clock *testkit.Clock, p *sluice.Plan, n int, cost int64) {
	t.Helper()
	for i := range n {
		if d := testkit.Take(t, s, testkit.Request(p, fmt.Sprint("stranger ", i), cost)); !d.Allowed {
			t.Fatalf("newcomer %d: got denied, want allowed: newcomers are never refused", i)
		}
		if i%50 == 0 {
			clock.Advance(time.Microsecond)
		}
	}
}

// deny spends all units of a key, and then takes once more.
func deny(t *testing.T, s *memstore.Store, p *sluice.Plan, key string) {
	t.Helper()
	full := testkit.Request(p, key, p.Term(0).Full)
	if !testkit.Take(t, s, full).Allowed || testkit.Take(t, s, full).Allowed {
		t.Fatalf("key %q: want all allowed at first, and then no more", key)
	}
}

// TestFloodForgetsNoDeniedKey fills a share of the slots with denied keys and
// floods the store with ten times as many newcomers as it has slots: every
// denied key must stay denied.
func TestFloodForgetsNoDeniedKey(t *testing.T) {
	t.Parallel()
	const maxKeys = 2000
	for _, l := range []string{"100/min", "1000003/min", "100/min sliding-counter", "10GB/min sliding-counter", "100/min sliding-log", "100/min fixed-window anchor first"} {
		for _, share := range []int{1, 50, 90} {
			t.Run(fmt.Sprintf("%s, %d percent denied", l, share), func(t *testing.T) {
				if share < 90 && l != "100/min" {
					testkit.Long(t) // with more denied keys it is harder
				}
				t.Parallel()
				clock := testkit.NewClock()
				s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
				p := testkit.Plan(t, "s", l)
				light := testkit.Plan(t, "s", "light: 100/min")
				denied := maxKeys * share / 100
				for i := range denied {
					deny(t, s, p, fmt.Sprint(i))
				}
				flood(t, s, clock, light, 10*maxKeys, 1)
				for i := range denied {
					if testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), p.Term(0).Full)).Allowed {
						t.Fatalf("key %d of %d: got allowed, want denied", i, denied)
					}
				}
				st := s.Stats()
				if st.Evicted < 8*maxKeys || st.EvictedDebt <= 0 {
					t.Errorf("got %+v, want evictions counted", st)
				}
				if st.States > maxKeys*5/4 {
					t.Errorf("got %d states, want at most a quarter more than %d", st.States, maxKeys)
				}
			})
		}
	}
}

// TestFloodOfEqualDebt is the most expensive flood: each new key is denied, too. While an
// eighth of the slots hold keys that are not denied, no denied key is evicted.
func TestFloodOfEqualDebt(t *testing.T) {
	t.Parallel()
	maxKeys := testkit.Steps(400, 4000)
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	p := testkit.Plan(t, "s", "60/min")
	flood(t, s, clock, p, 2*maxKeys, 1)
	for i := range maxKeys / 4 {
		deny(t, s, p, fmt.Sprint(i))
	}
	for i := range maxKeys / 2 {
		deny(t, s, p, fmt.Sprint("attacker ", i))
	}
	forgotten := 0
	for i := range maxKeys / 4 {
		if testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 60)).Allowed {
			forgotten++
		}
	}
	if forgotten > 0 {
		t.Errorf("got %d denied keys forgotten, want none", forgotten)
	}
}

// TestFloodOfOneFormSparesOthers: the forms of states make no difference.
func TestFloodOfOneFormSparesOthers(t *testing.T) {
	t.Parallel()
	maxKeys, denied := testkit.Steps(800, 2000), testkit.Steps(80, 200)
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	quiet := testkit.Plan(t, "quiet", "1/s")
	for i := range denied {
		deny(t, s, quiet, fmt.Sprint(i))
	}
	flood(t, s, clock, testkit.Plan(t, "loud", "5/h sliding-log"), 10*maxKeys, 1)
	for i := range denied {
		if testkit.Take(t, s, testkit.Request(quiet, fmt.Sprint(i), 1)).Allowed {
			t.Fatalf("key %d: got allowed, want denied", i)
		}
	}
}

// TestFullOfDeniedKeysServesNewcomers: an eighth of the room is for keys that are not
// denied. It is freed by evicting the one of a group of denied keys that is idle soonest.
func TestFullOfDeniedKeysServesNewcomers(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: 100, Now: clock.Now})
	p := testkit.Plan(t, "s", "60/min")
	for i := range 100 {
		deny(t, s, p, fmt.Sprint(i))
		clock.Advance(time.Microsecond)
	}
	flood(t, s, clock, p, 1, 1)
	// At most 36 keys came before the first of a group of 64.
	if st := s.Stats(); st.Evicted != 1 || st.EvictedDebt < time.Minute-101*time.Microsecond || st.EvictedDebt > time.Minute-64*time.Microsecond || st.States != 100 {
		t.Errorf("got %+v, want one of the first evicted", st)
	}
	flood(t, s, clock, p, 5000, 2)
	stay := 0
	for i := range 100 {
		if !testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 60)).Allowed {
			stay++
		}
	}
	if want := 100 - 100/8; stay != want {
		t.Errorf("got %d keys denied still, want %d", stay, want)
	}
}

// TestDeadStatesGoBeforeLiving: after a flood has become idle, new keys evict
// nothing.
func TestDeadStatesGoBeforeLiving(t *testing.T) {
	t.Parallel()
	const maxKeys = 4000
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
	short, long := testkit.Plan(t, "short", "1/s"), testkit.Plan(t, "long", "1/h")
	for i := range maxKeys / 2 {
		testkit.Take(t, s, testkit.Request(short, fmt.Sprint(i), 1))
		testkit.Take(t, s, testkit.Request(long, fmt.Sprint(i), 1))
	}
	clock.Advance(2 * time.Second)
	for i := range maxKeys / 2 {
		testkit.Take(t, s, testkit.Request(long, fmt.Sprint("second ", i), 1))
	}
	if st := s.Stats(); st.Evicted != 0 {
		t.Errorf("got %+v, want no eviction: half of the slots were idle", st)
	}
}
