// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package floor_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/bench/floor"
)

// taker is what both floors are to a test.
type taker func(cost int64) bool

func floors(t *testing.T, quota int64, per time.Duration, burst int64) map[string]taker {
	t.Helper()
	word, err := floor.NewWord(quota, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	table, err := floor.NewTable(100, quota, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]taker{
		"word":  word.Take,
		"table": func(cost int64) bool { return table.Take("key", cost) },
	}
}

func TestTake(t *testing.T) {
	steps := []struct {
		name string
		wait time.Duration
		cost int64
		want bool
	}{
		{"all of the burst", 0, 5, true},
		{"nothing left", 0, 1, false},
		{"asks for nothing", 0, 0, true},
		{"just before the next unit", 100*time.Millisecond - 1, 1, false},
		{"at the next unit", 1, 1, true},
		{"two after two more", 200 * time.Millisecond, 2, true},
		{"more than a burst after a rest", time.Hour, 6, false},
		{"a burst after a rest", 0, 5, true},
		{"no more", 0, 1, false},
	}
	synctest.Test(t, func(t *testing.T) {
		for who, take := range floors(t, 10, time.Second, 5) {
			for _, s := range steps {
				time.Sleep(s.wait)
				if got := take(s.cost); got != s.want {
					t.Errorf("%s: %s: got %v, want %v", who, s.name, got, s.want)
				}
			}
		}
	})
}

// TestExact has many goroutines press one key: admissions are what is due.
func TestExact(t *testing.T) {
	const burst, goroutines, each = 1000, 8, 5000
	for who, take := range floors(t, 1, 24*time.Hour, burst) {
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range each {
					if take(1) {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got := admitted.Load(); got != burst {
			t.Errorf("%s: admitted %d, want %d", who, got, burst)
		}
	}
}

// TestKeysApart has goroutines insert and press the same keys: each is granted
// its own burst, and none two slots.
func TestKeysApart(t *testing.T) {
	const keys, burst, goroutines = 5000, 3, 8
	table, err := floor.NewTable(keys, 1, 24*time.Hour, burst)
	if err != nil {
		t.Fatal(err)
	}
	admitted := make([]atomic.Int64, keys)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range burst {
				for i := range keys {
					if table.Take(fmt.Sprint("key", i), 1) {
						admitted[i].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range admitted {
		if got := admitted[i].Load(); got != burst {
			t.Errorf("key %d: admitted %d, want %d", i, got, burst)
		}
	}
}

// TestIdleSlotsAreFree fills the table many times over with keys that rest
// meanwhile: a key still in debt is never forgotten for them.
func TestIdleSlotsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		table, err := floor.NewTable(keys, 1, time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 20 {
			for i := range keys {
				if !table.Take(fmt.Sprint(round, "-", i), 1) {
					t.Fatalf("round %d: key %d denied at its first take", round, i)
				}
			}
			for i := range keys {
				if table.Take(fmt.Sprint(round, "-", i), 1) {
					t.Fatalf("round %d: key %d allowed at its second take", round, i)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

// TestFlood presses more keys than there are slots for: the table stays within
// its size and goes on to answer.
func TestFlood(t *testing.T) {
	table, err := floor.NewTable(32, 1, 24*time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for i := range 10_000 {
		if table.Take(fmt.Sprint("key", i), 1) {
			allowed++
		}
	}
	if allowed != 10_000 {
		t.Errorf("allowed %d new keys, want 10000", allowed)
	}
}

func TestRefused(t *testing.T) {
	cases := []struct {
		name         string
		keys         int
		quota, burst int64
		per          time.Duration
	}{
		{"no quota", 1, 0, 1, time.Second},
		{"no window", 1, 1, 1, 0},
		{"no burst", 1, 1, 0, time.Second},
		{"a remainder", 1, 3, 1, time.Second},
		{"below a nanosecond", 1, 2e9, 1, time.Second},
		{"burst out of range", 1, 1, math.MaxInt64, time.Hour},
		{"no keys", 0, 1, 1, time.Second},
		{"too many keys", 1 << 40, 1, 1, time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := floor.NewTable(c.keys, c.quota, c.per, c.burst); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	for who, take := range floors(t, 1000, time.Minute, 1_000_000_000) {
		if got := testing.AllocsPerRun(1000, func() { take(1) }); got != 0 {
			t.Errorf("%s: got %v allocations a take, want 0", who, got)
		}
	}
}
