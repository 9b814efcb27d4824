// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"cmp"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%08d", i)
	}
	return keys
}

// TestTakeDoesNotAllocate is not parallel, as AllocsPerRun requires.
func TestTakeDoesNotAllocate(t *testing.T) {
	runs, keys := testkit.Steps(200, 2000), keysOf(testkit.Steps(2000, 100_000))
	for _, l := range limits {
		p := testkit.Plan(t, "s", l.text)
		many := testkit.Plan(t, "many", "a: 1000/min", "b: 1000/min fixed-window", "c: 1000/h sliding-counter")
		cost := p.Term(0).Full
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{Now: clock.Now})
		testkit.Take(t, s, testkit.Request(p, "k", 1))
		testkit.Take(t, s, testkit.Request(p, "full", cost))
		check := func(name string, want bool, req sluice.Request) {
			t.Helper()
			got := testing.AllocsPerRun(runs, func() {
				d := testkit.Take(t, s, req)
				if d.Allowed != want && want {
					clock.Advance(time.Hour)
				}
				clock.Advance(time.Millisecond)
			})
			if got != 0 {
				t.Errorf("%s, %s: got %v allocations, want 0", l.name, name, got)
			}
		}
		if l.name != "ring of a log of denials" { // its ring grows now and then
			check("denial", false, testkit.Request(p, "full", cost))
		}
		check("peek", true, sluice.Request{Op: sluice.OpPeek, Charge: testkit.Request(p, "k", 1).Charge})
		check("several limits", true, testkit.Request(many, "k", 1))
		check("several keys", true, sluice.Request{Charge: testkit.Request(many, "k", 1).Charge, More: []sluice.Charge{testkit.Request(many, "l", 1).Charge}})
		check("outcomes", true, sluice.Request{Charge: testkit.Request(many, "k", 1).Charge, Outcomes: new(make(sluice.Outcomes, 3))})
		slotted := testkit.Request(many, "k", 1)
		slotted.Slot = &sluice.Slot{SlotRequest: sluice.SlotRequest{
			Scope: "many", Limit: sluice.SlotLimit{Name: "slots", Cap: 2, TTL: time.Minute}, Key: "k", Owner: "o", Cost: 1,
		}}
		check("slot", true, slotted)

		steady := testkit.Request(p, "k", 1)
		for range 1000 {
			testkit.Take(t, s, steady)
			clock.Advance(10 * time.Millisecond)
		}
		if got := testing.AllocsPerRun(runs, func() {
			testkit.Take(t, s, steady)
			clock.Advance(10 * time.Millisecond)
		}); got != 0 {
			t.Errorf("%s, take: got %v allocations, want 0", l.name, got)
		}
		if p.Term(0).Kind == compiled.SlidingLog || p.Term(0).Kind == compiled.SlidingHistogram || p.Term(0).SubWindows > 1 {
			continue // algo makes a new key's ring
		}
		next := 0
		if got := testing.AllocsPerRun(len(keys)-2, func() {
			testkit.Take(t, s, testkit.Request(p, keys[next], 1))
			next++
		}); got != 0 {
			t.Errorf("%s, new key: got %v allocations, want 0 on average", l.name, got)
		}
	}
}

func heap() (bytes, objects uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.HeapObjects
}

// TestMemoryPerKey measures the whole memory of a live key. It is not parallel: the memory of
// other tests would be counted, too.
func TestMemoryPerKey(t *testing.T) {
	tests := []struct {
		text    string
		keys    int
		takes   int
		inTurn  bool // all keys take once, then all again
		most    uint64
		objects int // most objects per 1000 keys
		maxKeys int // 0: as many as the keys; -1: a default store
	}{
		{"100/day", 1_000_000, 1, false, 40, 5, 0},
		{"100/h interval-refill", 1_000_000, 1, false, 40, 5, 0},
		{"100/min fixed-window", 1_000_000, 1, false, 40, 5, 0},
		{"100/min sliding-counter", 1_000_000, 1, false, 40, 5, 0},
		{"10GB/min sliding-counter", 1_000_000, 1, false, 40, 5, 0},
		{"100/h sliding-log", 48_000, 100, false, 1100, 150, 0},
		{"100/h sliding-log", 48_000, 100, true, 1100, 150, 0},
		{"100/h sliding-log", 20_000, 100, false, 1100, 400, -1},
		{"100/h sliding-log", 20_000, 100, true, 1100, 400, -1},
		{"100/h sliding-log", 35_000, 100, false, 1100, 400, -1}, // shards have been divided just before
		{"100/h sliding-log", 60_000, 100, false, 1100, 400, -1}, // and are full
		{"1000000/h sliding-histogram", 1_000, 5000, false, 2_500, 200, 0},
	}
	for i, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			if i > 0 {
				testkit.Long(t)
			}
			n := testkit.Steps(min(tt.keys, 20_000), tt.keys)
			clock := testkit.NewClock()
			p := testkit.Plan(t, "s", tt.text)
			before, objects := heap()
			s := memstore.New(memstore.Options{MaxKeys: max(cmp.Or(tt.maxKeys, n), 0), Now: clock.Now})
			key := make([]byte, 0, 32)
			once := func(i int) {
				key = strconv.AppendInt(append(key[:0], "user-"...), int64(i), 10)
				if _, err := s.Take(t.Context(), testkit.Request(p, string(key), 1)); err != nil {
					t.Fatal(err)
				}
				clock.Advance(time.Microsecond)
			}
			for i := range n * tt.takes {
				if tt.inTurn {
					once(i % n)
				} else {
					once(i / tt.takes)
				}
			}
			after, objectsAfter := heap()
			st := s.Stats()
			if st.States != n || st.Evicted != 0 {
				t.Errorf("got %+v, want %d states, all alive", st, n)
			}
			perKey := (after - before) / uint64(n)
			if perKey > tt.most {
				t.Errorf("got %d B per key, want at most %d", perKey, tt.most)
			}
			if got, want := objectsAfter-min(objects, objectsAfter), uint64(100+n*tt.objects/1000); got > want {
				t.Errorf("got %d objects, want at most %d", got, want)
			}
			t.Logf("%d B per key (%d by Stats), %d objects", perKey, st.Bytes/int64(n), objectsAfter-min(objects, objectsAfter))
			runtime.KeepAlive(s)
		})
	}
}

// TestMemoryOfAFullHistogram spends a million units of each key, in takes that leave as many
// entries as single units. Like [TestMemoryPerKey] it is not parallel.
func TestMemoryOfAFullHistogram(t *testing.T) {
	testkit.Long(t)
	const n = 1_100
	clock := testkit.NewClock()
	p := testkit.Plan(t, "s", "1000000/h sliding-histogram")
	keys := keysOf(n)
	before, _ := heap()
	s := memstore.New(memstore.Options{MaxKeys: n, Now: clock.Now})
	for _, r := range []struct{ times, cost int64 }{{900, 1000}, {900, 100}, {900, 10}, {1000, 1}} {
		for range r.times {
			for _, key := range keys {
				testkit.Take(t, s, testkit.Request(p, key, r.cost))
			}
			clock.Advance(time.Millisecond)
		}
	}
	after, _ := heap()
	if st := s.Stats(); st.States != n || st.Evicted != 0 {
		t.Errorf("got %+v, want %d states, all alive", st, n)
	}
	perKey := (after - before) / n
	if perKey > 4000 {
		t.Errorf("got %d B per key, want at most 4000", perKey)
	}
	t.Logf("%d B per key", perKey)
	runtime.KeepAlive(s)
}
