// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestFloodForgetsNoBlockedKey: a key stays blocked until its block ends, in spite of new
// keys, even if the limit that denied it has long been idle.
func TestFloodForgetsNoBlockedKey(t *testing.T) {
	t.Parallel()
	maxKeys, keys := testkit.Steps(200, 2000), testkit.Steps(20, 200)
	for _, l := range []string{"1/s", "1/s sliding-log", "1/s fixed-window"} {
		t.Run(l, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: clock.Now})
			p, light := testkit.Plan(t, "s", l, "3/min block 10min"), testkit.Plan(t, "s", "light: 100/min")
			for i := range keys {
				for range 4 {
					testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1))
				}
			}
			clock.Advance(9 * time.Minute)
			flood(t, s, clock, light, 10*maxKeys, 1)
			if s.Stats().Evicted < uint64(8*maxKeys) {
				t.Errorf("got %+v, want that the flood was forgotten", s.Stats())
			}
			for i := range keys {
				if d := testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1)); d.Allowed || d.Binding != 1 {
					t.Fatalf("key %d: got %+v, want a blocked key", i, d)
				}
			}
			clock.Advance(time.Minute)
			for i := range keys {
				if d := testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1)); !d.Allowed {
					t.Fatalf("key %d, behind its block: got %+v", i, d)
				}
			}
		})
	}
}

// TestBlockCostsNothingUnlessDenied: a caller that is never denied has no state of a block, and
// a denial that counts allocates nothing.
func TestBlockCostsNothingUnlessDenied(t *testing.T) {
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	p := testkit.Plan(t, "s", "5/h fixed-window", "1000000/day block 10min")
	for i := range 100 {
		for range 5 {
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1))
		}
	}
	if got := s.Stats().States; got != 100 {
		t.Errorf("100 keys have %d states", got)
	}
	req := testkit.Request(p, "0", 1)
	testkit.Take(t, s, req)
	if got := s.Stats().States; got != 101 {
		t.Errorf("100 keys, of which one was denied, have %d states", got)
	}
	if got := testing.AllocsPerRun(100, func() { testkit.Take(t, s, req) }); got != 0 {
		t.Errorf("a denial: got %v allocations, want 0", got)
	}
}

// TestBlockOutlivesRestart: a snapshot holds counts and blocks.
func TestBlockOutlivesRestart(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	a := memstore.New(memstore.Options{Now: clock.Now})
	p := testkit.Plan(t, "s", "1/s", "4/min block 10min")
	ask := func(s *memstore.Store, key string, times int) (d any) {
		for range times {
			d = testkit.Take(t, s, testkit.Request(p, key, 1))
		}
		return d
	}
	ask(a, "blocked", 5)
	ask(a, "counted", 4)
	clock.Advance(5 * time.Second)
	b := memstore.New(memstore.Options{Now: clock.Now})
	if err := b.Restore(bytes.NewReader(snapshot(t, a))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key   string
		times int
	}{{"blocked", 1}, {"counted", 2}, {"counted", 1}, {"another", 5}} {
		if got, want := ask(b, c.key, c.times), ask(a, c.key, c.times); got != want {
			t.Errorf("%s: got %+v, want %+v", c.key, got, want)
		}
	}
	if d := testkit.Take(t, b, testkit.Request(p, "counted", 1)); d.RetryAfter != 10*time.Minute {
		t.Errorf("the fourth denial: got %+v, want a block", d)
	}
}
