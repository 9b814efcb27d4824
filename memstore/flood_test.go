// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// flood sends takes of cost by n keys never seen before, clock by clock.
func flood(t *testing.T, s *memstore.Store, clock *hand, p *sluice.Plan, n int, cost int64) {
	t.Helper()
	for i := range n {
		if d := take(t, s, charge(p, fmt.Sprint("stranger ", i), cost)); !d.Allowed {
			t.Fatalf("newcomer %d: got denied, want allowed: newcomers are never refused", i)
		}
		if i%50 == 0 {
			clock.advance(time.Microsecond)
		}
	}
}

// TestFloodForgetsNoDeniedKey fills a share of the slots with denied keys and
// floods the store with ten times as many newcomers as it has slots, which owe
// less: every denied key must stay denied.
func TestFloodForgetsNoDeniedKey(t *testing.T) {
	t.Parallel()
	const maxKeys = 2000
	for _, l := range []string{"100/min", "1000003/min", "100/min sliding-counter", "10GB/min sliding-counter", "100/min sliding-log", "100/min fixed-window anchor first"} {
		for _, share := range []int{1, 50, 90} {
			t.Run(fmt.Sprintf("%s, %d percent denied", l, share), func(t *testing.T) {
				t.Parallel()
				clock := newHand()
				s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.now})
				p := plan(t, "s", l)
				// Newcomers owe less by any measure: in the same scope they would
				// under a bucket, but a window's state lasts as long for one unit.
				light := plan(t, "s", "light: 100/min")
				denied := maxKeys * share / 100
				for i := range denied {
					take(t, s, charge(p, fmt.Sprint(i), p.Term(0).Full()))
				}
				flood(t, s, clock, light, 10*maxKeys, 1)
				for i := range denied {
					if take(t, s, charge(p, fmt.Sprint(i), p.Term(0).Full())).Allowed {
						t.Fatalf("key %d of %d: got allowed, want denied: its debt outlasts every newcomer's", i, denied)
					}
				}
				st := s.Stats()
				if st.Evicted < 8*maxKeys || st.Forgiven <= 0 {
					t.Errorf("got %+v, want evictions counted", st)
				}
				if st.States > maxKeys*5/4 {
					t.Errorf("got %d states, want at most a quarter more than %d", st.States, maxKeys)
				}
			})
		}
	}
}

// TestFloodOfEqualDebt is the worst of floods: each newcomer spends its whole
// burst at once, so that it owes as much as the denied keys. While half of the
// slots hold lighter states, a denied key goes only where a whole group of 16
// is as heavy.
func TestFloodOfEqualDebt(t *testing.T) {
	t.Parallel()
	const maxKeys = 4000
	clock := newHand()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.now})
	p := plan(t, "s", "60/min")
	flood(t, s, clock, p, 2*maxKeys, 1)
	for i := range maxKeys / 4 {
		take(t, s, charge(p, fmt.Sprint(i), 60))
	}
	for i := range maxKeys / 4 {
		take(t, s, charge(p, fmt.Sprint("attacker ", i), 60))
	}
	forgotten := 0
	for i := range maxKeys / 4 {
		if take(t, s, charge(p, fmt.Sprint(i), 60)).Allowed {
			forgotten++
		}
	}
	if forgotten > 1 {
		t.Errorf("got %d denied keys forgotten, want none (1 by chance)", forgotten)
	}
}

// TestFloodOfOneFormSparesOthers: the states of the form that has most go.
func TestFloodOfOneFormSparesOthers(t *testing.T) {
	t.Parallel()
	const maxKeys = 2000
	clock := newHand()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.now})
	quiet, loud := plan(t, "quiet", "1/s"), plan(t, "loud", "5/h sliding-log")
	for i := range 200 {
		take(t, s, charge(quiet, fmt.Sprint(i), 1))
	}
	flood(t, s, clock, loud, 10*maxKeys, 1)
	for i := range 200 {
		if take(t, s, charge(quiet, fmt.Sprint(i), 1)).Allowed {
			t.Fatalf("key %d: got allowed, want denied", i)
		}
	}
}

// TestFullOfDebtorsServesNewcomers: where all owe more, the one that is idle
// soonest goes.
func TestFullOfDebtorsServesNewcomers(t *testing.T) {
	t.Parallel()
	clock := newHand()
	s := memstore.New(memstore.Options{MaxKeys: 100, Now: clock.now})
	p := plan(t, "s", "60/min")
	for i := range 100 {
		take(t, s, charge(p, fmt.Sprint(i), 60))
		clock.advance(time.Microsecond)
	}
	flood(t, s, clock, p, 1, 1)
	st := s.Stats()
	if want := time.Minute - 100*time.Microsecond; st.Evicted != 1 || st.Forgiven != want || st.States != 100 {
		t.Errorf("got %+v, want the first one's %v forgiven", st, want)
	}
	flood(t, s, clock, p, 1, 2) // in the place of the last newcomer
	for i := 1; i < 100; i++ {
		if take(t, s, charge(p, fmt.Sprint(i), 60)).Allowed {
			t.Errorf("key %d: got allowed, want denied", i)
		}
	}
}

// TestDeadStatesGoBeforeLiving: after a flood has become idle, new keys evict
// nothing.
func TestDeadStatesGoBeforeLiving(t *testing.T) {
	t.Parallel()
	const maxKeys = 4000
	clock := newHand()
	s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.now})
	short, long := plan(t, "short", "1/s"), plan(t, "long", "1/h")
	for i := range maxKeys / 2 {
		take(t, s, charge(short, fmt.Sprint(i), 1))
		take(t, s, charge(long, fmt.Sprint(i), 1))
	}
	clock.advance(2 * time.Second)
	for i := range maxKeys / 2 {
		take(t, s, charge(long, fmt.Sprint("second ", i), 1))
	}
	if st := s.Stats(); st.Evicted != 0 {
		t.Errorf("got %+v, want no eviction: half of the slots were idle", st)
	}
}
