// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// arraysOf returns the arrays of all shards.
func arraysOf(s *Store) (list []*wordArray) {
	for part := 0; part < len(s.shards); {
		part = s.visit(part, func(sh *shard) { list = append(list, sh.words.array.Load()) })
	}
	return list
}

// TestRestingKeysKeepTheirSlots: keys that are idle whenever they are taken need the lock
// once, and not again as long as they return within resting.
func TestRestingKeysKeepTheirSlots(t *testing.T) {
	const keys = 5000
	now := time.Unix(1e9, 0)
	s := New(Options{Now: func() time.Time { return now }})
	lim, err := sluice.New(s, "rest", sluice.PerSecond(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		for i := range keys {
			now = now.Add(resting * time.Microsecond / keys)
			if d, err := lim.Take(t.Context(), strconv.Itoa(i), 1); err != nil || !d.Allowed || d.Remaining != 999_999 {
				t.Fatalf("key %d at %v: %+v, %v", i, now, d, err)
			}
		}
	}
	ask()
	before := arraysOf(s)
	for range 3 {
		ask()
	}
	for i, a := range arraysOf(s) {
		if a != before[i] {
			t.Errorf("shard %d: the array was replaced, though no key was new", i)
		}
	}
	// The next new keys find the array full of states that have long been idle.
	now = now.Add(time.Hour)
	for i := range 100 * keys {
		now = now.Add(resting * time.Microsecond / 100)
		if _, err := lim.Take(t.Context(), strconv.Itoa(-i), 1); err != nil {
			t.Fatal(err)
		}
	}
	slots := 0
	for _, a := range arraysOf(s) {
		slots += len(a.slots)
	}
	if most := 2*100 + 32*len(arraysOf(s)); slots > most {
		t.Errorf("%d slots for 100 keys that rest, want at most %d", slots, most)
	}
}

// TestStatesComeToLifeDuringRebuild: an array is replaced for few states while many that
// were idle are taken, more than have been counted.
func TestStatesComeToLifeDuringRebuild(t *testing.T) {
	keys := testkit.Steps(100, 400)
	var now atomic.Int64
	now.Store(1e15)
	s := New(Options{MaxKeys: keys * 5 / 4, Now: func() time.Time { return time.UnixMicro(now.Load()) }})
	lim, err := sluice.New(s, "rest", sluice.PerMinute(1000))
	if err != nil {
		t.Fatal(err)
	}
	take := func(key string) {
		if _, err := lim.Take(t.Context(), key, 1); err != nil {
			t.Error(err)
		}
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for round := range 600 {
		for _, n := range names {
			take(n)
		}
		now.Add(2 * resting)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for _, n := range names {
					take(n)
				}
			})
		}
		sh := s.hold(0)
		sh.rebuildWords(now.Load(), now.Load()-resting)
		sh.mu.Unlock()
		group.Wait()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}
