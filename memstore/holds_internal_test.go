// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

func holdOf(op sluice.Op, plan *sluice.Plan, key string, cost int64, id string) sluice.Request {
	return sluice.Request{Op: op, Charge: sluice.Charge{Plan: plan, Key: key, Cost: cost}, Hold: &sluice.Hold{ID: id, TTL: time.Minute}}
}

// TestHoldsMoveWithShards: the holds of keys stay with them when their shard is divided.
func TestHoldsMoveWithShards(t *testing.T) {
	clock := testkit.NewClock()
	s := New(Options{Now: clock.Now, MaxKeys: 1 << 16})
	s.open(1)
	plan := testkit.Plan(t, "s", "10/h")
	for i := range 5000 {
		if d := testkit.Take(t, s, holdOf(sluice.OpTake, plan, fmt.Sprint(i), 4, "a")); !d.Allowed {
			t.Fatalf("key %d: got %+v", i, d)
		}
	}
	for i := range 5000 {
		if d := testkit.Take(t, s, holdOf(sluice.OpSettle, plan, fmt.Sprint(i), 1, "a")); d.Hold != sluice.HoldSettled || d.Remaining != 9 {
			t.Fatalf("key %d: got %+v", i, d)
		}
	}
	if got := s.Stats(); got.Holds != 5000 || got.HoldsDropped != 0 {
		t.Errorf("got %+v, want 5000 holds", got)
	}
	clock.Advance(time.Hour)
	for i := range 5000 { // each forgets some that are over
		testkit.Take(t, s, holdOf(sluice.OpTake, plan, fmt.Sprint("other ", i), 4, "a"))
	}
	if got := s.Stats().Holds; got > 6000 {
		t.Errorf("%d holds are kept, of which 5000 are open", got)
	}
}

// TestHoldsAreBounded: a store that is full of holds denies more, and lets plain takes pass.
func TestHoldsAreBounded(t *testing.T) {
	clock := testkit.NewClock()
	s := New(Options{Now: clock.Now, MaxKeys: 800})
	plan := testkit.Plan(t, "s", "10/h")
	for i := range 100 {
		testkit.Take(t, s, holdOf(sluice.OpTake, plan, fmt.Sprint(i), 1, "a"))
	}
	if d := testkit.Take(t, s, holdOf(sluice.OpTake, plan, "b", 1, "a")); d.Allowed || d.Hold != sluice.HoldsFull || d.RetryAfter < time.Second {
		t.Errorf("got %+v, want that the store has no room", d)
	}
	if d := testkit.Take(t, s, holdOf(sluice.OpTake, plan, "0", 1, "a")); !d.Allowed || d.Hold != sluice.HoldOpen {
		t.Errorf("a repetition: got %+v", d)
	}
	if d := testkit.Take(t, s, sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "b", Cost: 1}}); !d.Allowed {
		t.Errorf("a plain take: got %+v", d)
	}
	clock.Advance(2 * time.Hour)
	if d := testkit.Take(t, s, holdOf(sluice.OpTake, plan, "b", 1, "a")); !d.Allowed {
		t.Errorf("after the end of all: got %+v", d)
	}
}

// TestEvictedHolds: an evicted state takes its holds along, and a settle then charges in full.
func TestEvictedHolds(t *testing.T) {
	clock := testkit.NewClock()
	s := New(Options{Now: clock.Now, MaxKeys: 100})
	plan := testkit.Plan(t, "s", "10/h")
	testkit.Take(t, s, holdOf(sluice.OpTake, plan, "a", 4, "a"))
	for i := range 1000 {
		testkit.Take(t, s, sluice.Request{Charge: sluice.Charge{Plan: plan, Key: fmt.Sprint(i), Cost: 1}})
	}
	if got := s.Stats(); got.Holds != 0 || got.HoldsDropped != 1 {
		t.Errorf("got %+v, want that the hold was dropped", got)
	}
	if d := testkit.Take(t, s, holdOf(sluice.OpSettle, plan, "a", 3, "a")); d.Hold != sluice.HoldExpired || d.Spent != 3 || d.Remaining != 7 {
		t.Errorf("got %+v, want 3 units charged", d)
	}
}

// TestHoldOfAWord: takes of a key with holds end them, although states of its limit are words
// that takes change without a lock. Other keys keep their words.
func TestHoldOfAWord(t *testing.T) {
	for _, text := range []string{"4/h burst 4", "4/day fixed-window"} {
		clock := testkit.NewClock()
		s := New(Options{Now: clock.Now})
		l := testkit.Limiter(t, s, "s", text)
		take := func(key string, cost int64) sluice.Decision {
			d, err := l.Take(t.Context(), key, cost)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		take("a", 1)
		take("b", 1)
		testkit.Take(t, s, holdOf(sluice.OpTake, l.Plan(), "a", 3, "x"))
		if d := take("a", 1); d.Allowed {
			t.Errorf("%s: got %+v, want all held", text, d)
		}
		clock.Advance(time.Minute)
		if d := take("a", 3); !d.Allowed {
			t.Errorf("%s: got %+v, want the hold ended", text, d)
		}
		if d := take("b", 3); !d.Allowed {
			t.Errorf("%s: another key: got %+v", text, d)
		}
	}
}

// TestHoldExplained: an explanation describes the open holds, without those that are over, and
// changes nothing.
func TestHoldExplained(t *testing.T) {
	clock := testkit.NewClock()
	s := New(Options{Now: clock.Now})
	plan := testkit.Plan(t, "s", "10/day fixed-window")
	testkit.Take(t, s, holdOf(sluice.OpTake, plan, "a", 2, "x"))
	clock.Advance(30 * time.Second)
	testkit.Take(t, s, holdOf(sluice.OpTake, plan, "a", 3, "y"))
	for _, c := range []struct {
		after time.Duration
		want  string
		room  int64
	}{
		{0, fmt.Sprintf("open holds: 2, of 5 units; the next ends at %s UTC", clock.Now().UTC().Add(30*time.Second).Format("15:04:05.999999")), 5},
		{30 * time.Second, fmt.Sprintf("open holds: 1, of 3 units; the next ends at %s UTC", clock.Now().UTC().Add(time.Minute).Format("15:04:05.999999")), 7},
	} {
		clock.Advance(c.after)
		for range 2 {
			e, err := s.Explain(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "a", Cost: 1}})
			if err != nil || e.Limits[0].Lines[0] != c.want || e.Limits[0].Room != c.room {
				t.Errorf("got %+v, %v, want %q and room for %d", e, err, c.want, c.room)
			}
		}
	}
}
