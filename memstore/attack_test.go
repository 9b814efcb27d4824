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

// lock takes for a key until it is denied.
func lock(t testing.TB, s *memstore.Store, p *sluice.Plan, key string) {
	t.Helper()
	for i := range 200 {
		if !testkit.Take(t, s, testkit.Request(p, key, 1)).Allowed {
			return
		}
		if i == 199 {
			t.Fatalf("key %q: still allowed after %d takes", key, i+1)
		}
	}
}

func lockAll(t testing.TB, s *memstore.Store, p *sluice.Plan, n int) {
	t.Helper()
	for i := range n {
		lock(t, s, p, fmt.Sprint("locked ", i))
	}
}

// freed returns how many keys of lockAll are no longer denied.
func freed(t testing.TB, s *memstore.Store, p *sluice.Plan, n int) (freed int) {
	t.Helper()
	for i := range n {
		if testkit.Take(t, s, testkit.Request(p, fmt.Sprint("locked ", i), 1)).Allowed {
			freed++
		}
	}
	return freed
}

// lockable is a limit of 5 units of every algorithm and form.
var lockable = []string{
	"5/15min sliding-log", "5/15min sliding-log count-denied", "5/15min sliding-histogram", "5/15min fixed-window", "5/15min fixed-window anchor first",
	"5/15min sliding-counter", "5/15min sliding-counter sub-windows 3", "5/15min", "1000003/365d burst 5", "5/15min interval-refill", "5/15min initial 3", "5/15min warm-up 1h",
	"1/3min leaky-bucket burst 5 nodelay",
}

// TestFloodFreesNoLockedKey floods a store with 20 times as many new keys as it
// has room for, one unit each: by the locked keys' own rule, by one of a longer
// window, and by another algorithm.
func TestFloodFreesNoLockedKey(t *testing.T) {
	t.Parallel()
	const locked = 20
	maxKeys := testkit.Steps(100, 1000)
	for _, l := range lockable {
		for name, by := range map[string]string{"same rule": "", "longer window": "3/day", "log of a day": "3/day sliding-log", "histogram": "5/15min sliding-histogram"} {
			t.Run(l+", "+name, func(t *testing.T) {
				t.Parallel()
				clock := testkit.NewClock()
				s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
				p := testkit.Plan(t, "login", l)
				f := p
				if by != "" {
					f = testkit.Plan(t, "other", by)
				}
				lockAll(t, s, p, locked)
				flood(t, s, clock, f, 20*maxKeys, 1)
				if got := freed(t, s, p, locked); got != 0 {
					t.Errorf("got %d of %d locked keys freed, want none", got, locked)
				}
				if st := s.Stats(); st.Evicted < uint64(15*maxKeys) {
					t.Errorf("got %+v, want evictions, or this tests nothing", st)
				}
			})
		}
	}
}

// TestLockedKeysSurviveALongFlood is TestFloodFreesNoLockedKey with more room.
func TestLockedKeysSurviveALongFlood(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{MaxKeys: 10_000, Now: clock.Now})
	p, keyless := testkit.Plan(t, "login", "5/15min sliding-log"), testkit.Plan(t, "all", "100/h fixed-window")
	lockAll(t, s, p, 10)
	for range 100 {
		testkit.Take(t, s, testkit.Request(keyless, "", 1))
	}
	flood(t, s, clock, p, testkit.Steps(30_000, 100_000), 1)
	if got := freed(t, s, p, 10); got != 0 {
		t.Errorf("got %d of 10 locked keys freed, want none", got)
	}
	if testkit.Take(t, s, testkit.Request(keyless, "", 1)).Allowed {
		t.Error("limit without a key: got allowed, want denied: it was spent before the flood")
	}
}

// TestFloodWearsOutNoLimitWithoutAKey takes on a limit that all requests share
// as often as on one by user whose keys are always new.
func TestFloodWearsOutNoLimitWithoutAKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		cost    int64
		seconds int
		most    int64
	}{
		{"50/s burst 10", 1, 10, 510},
		{"200/s leaky-bucket burst 100", 1, 10, 2100},
		{"200/s leaky-bucket burst 100 nodelay", 1, 10, 2100},
		{"50/s sliding-log", 1, 4, 200},
		{"50/s fixed-window", 1, 4, 200},
		{"1000003/s burst 5000", 4001, 1, 1_005_003},
		{"50/s sliding-counter", 1, 4, 250},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			clock := testkit.ClockAt(time.Unix(1_700_000_000, 0)) // the beginning of a window of a second
			s, alone := memstore.New(memstore.Options{MaxKeys: testkit.Steps(100, 1000), Now: clock.Now}), memstore.New(memstore.Options{Now: clock.Now})
			keyless, user := testkit.Plan(t, "all", tt.text), testkit.Plan(t, "user", "10/min")
			got, want := int64(0), int64(0)
			for i := range tt.seconds * 5000 {
				if i%10 == 0 && testkit.Take(t, s, testkit.Request(keyless, "", tt.cost)).Allowed {
					got += tt.cost
				}
				if i%10 == 0 && testkit.Take(t, alone, testkit.Request(keyless, "", tt.cost)).Allowed {
					want += tt.cost
				}
				testkit.Take(t, s, testkit.Request(user, fmt.Sprint("user ", i), 1))
				clock.Advance(200 * time.Microsecond)
			}
			if got != want || got > tt.most || got < tt.most*3/4 {
				t.Errorf("got %d admitted, want %d as without a flood, and %d at most and nearly", got, want, tt.most)
			}
			if st := s.Stats(); st.Evicted == 0 {
				t.Errorf("got %+v, want evictions, or this tests nothing", st)
			}
		})
	}
}

// TestFloodBeforeDenial tries a key now and then while new keys come: a key that is not
// denied yet is evicted only if as many new keys come between two tries as half of the
// store holds. When the store is full for the first time any key may be evicted, as
// nothing shows the recent ones.
func TestFloodBeforeDenial(t *testing.T) {
	t.Parallel()
	const tries, victims, first = 40, 10, 5
	maxKeys := testkit.Steps(256, 1000)
	tests := []struct {
		name           string
		every, preload int
		least, most    int
	}{
		{"a try per N/64", maxKeys / 64, 0, 5, 5},
		{"a try per N/16", maxKeys / 16, 0, 5, 5},
		{"a try per N/4", maxKeys / 4, 0, 5, 8},
		{"a try per N", maxKeys, 0, 5, tries},
		{"a try per N/64, filled before", maxKeys / 64, 4, 5, 5},
		{"a try per N/16, filled before", maxKeys / 16, 4, 5, 5},
		{"a try per N/4, filled before", maxKeys / 4, 4, 5, 8},
	}
	for _, l := range []string{"5/15min sliding-log", "5/15min", "5/15min fixed-window"} {
		for _, tt := range tests {
			t.Run(l+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				clock := testkit.NewClock()
				s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
				p := testkit.Plan(t, "login", l)
				for i := range maxKeys * min(tt.preload, 1) {
					testkit.Take(t, s, testkit.Request(p, fmt.Sprint("before ", i), 4))
				}
				admitted, next := 0, 0
				for range tries {
					for v := range victims {
						if testkit.Take(t, s, testkit.Request(p, fmt.Sprint("guessed ", v), 1)).Allowed {
							admitted++
						}
					}
					for range tt.every {
						testkit.Take(t, s, testkit.Request(p, fmt.Sprint("new ", next), 1))
						next++
					}
					clock.Advance(time.Microsecond)
				}
				t.Logf("%d of %d", admitted, victims*tries)
				if least, most := victims*tt.least, victims*tt.most+first; admitted < least || admitted > most {
					t.Errorf("got %d of %d tries admitted, want %d to %d", admitted, victims*tries, least, most)
				}
			})
		}
	}
}

// TestAllDenied fills a store with locked keys. New keys still get in, and keys that are
// not denied are not forgotten at once: they have an eighth of the room.
func TestAllDenied(t *testing.T) {
	t.Parallel()
	for _, l := range []string{"5/15min sliding-log", "5/15min"} {
		for _, maxKeys := range []int{1, 2, 3, 8, testkit.Steps(100, 1000)} {
			t.Run(fmt.Sprintf("%s, %d keys", l, maxKeys), func(t *testing.T) {
				t.Parallel()
				clock := testkit.NewClock()
				s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
				p := testkit.Plan(t, "login", l)
				lockAll(t, s, p, 3*maxKeys)
				clock.Advance(time.Microsecond) // any of the keys locked at one instant may be evicted
				admitted := 0
				for i := range 40 {
					if testkit.Take(t, s, testkit.Request(p, "guessed", 1)).Allowed {
						admitted++
					}
					flood(t, s, clock, testkit.Plan(t, fmt.Sprint("new ", i), l), maxKeys/50, 1)
				}
				if admitted != 5 {
					t.Errorf("got %d tries admitted, want 5", admitted)
				}
				flood(t, s, clock, p, 20*maxKeys, 1)
				st := s.Stats()
				if st.States > maxKeys*5/4+1 {
					t.Errorf("got %d states, want about %d at most", st.States, maxKeys)
				}
				got := freed(t, s, p, 3*maxKeys) - 2*maxKeys
				t.Logf("%d of the last %d freed, %+v", got, maxKeys, st)
				if maxKeys > 3 && got > maxKeys/2 {
					t.Errorf("got %d freed of as many locked keys as there is room for, %d, want about an eighth", got, maxKeys)
				}
			})
		}
	}
}
