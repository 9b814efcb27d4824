// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// mostBytes bounds the histories and sketches of 1,000 rules.
const mostBytes = 20_000_000

// policyOf returns a policy of the numbered rules, each with its own path.
func policyOf(t *testing.T, from, to int) *policy.Policy {
	t.Helper()
	var all []policy.Rule
	for i := from; i < to; i++ {
		r := policy.NewRule("rule"+strconv.Itoa(i), policy.Header("X-User"), sluice.PerMinute(10))
		r.Match.Paths = []string{"/" + strconv.Itoa(i)}
		all = append(all, r)
	}
	p, err := policy.Compile(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// use counts something of every kind for each rule of an index.
func use(t *Tally, from, to int) {
	in := t.current.Load()
	for i := from; i < to; i++ {
		c := in.rules["rule"+strconv.Itoa(i)]
		for _, n := range []interface{ Add(uint64) uint64 }{&c.Allowed, &c.Denied, &c.WouldDeny, &c.Warned, &c.Delayed, &c.Degraded} {
			n.Add(1)
		}
		if keys := t.room.keysOf(c.recent); keys != nil {
			keys.Seen(uint64(i))
		}
	}
}

// fill counts n keys of all kinds for each rule of an index in each part of the last hour and
// day, four times as many with fine sketches, and returns the time after that. It must begin
// an hour before the end of a half day.
func fill(t *Tally, n int, now time.Time) time.Time {
	in := t.current.Load()
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for _, next := range []time.Duration{sketch.HourHalf, sketch.HourHalf, sketch.HourHalf, 0} {
		for _, c := range in.rules {
			keys := c.recent.keys.Load()
			if keys == nil {
				continue
			}
			of := n
			if keys.Precision() == sketch.Fine {
				of *= 4
			}
			for range of {
				hash := random.Uint64()
				keys.Seen(hash)
				keys.Denied(hash)
				keys.Used(hash, 1000)
			}
		}
		now = now.Add(next)
		t.Tick(now)
	}
	return now
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory: histories and sketches of 1,000 rules with all kinds of requests stay within 20
// MB for any number of keys, and take about as much as Bytes returns; more rules take no more.
func TestMemory(t *testing.T) {
	for _, keys := range []int{63, 0, 500}[:testkit.Steps(1, 3)] {
		t.Run(strconv.Itoa(keys)+" keys", func(t *testing.T) { testMemory(t, keys) })
	}
}

func testMemory(t *testing.T, keys int) {
	t.Helper()
	const rules = 3 * MostRecent
	var counts Tally
	counts.Follow(policyOf(t, 0, rules))
	before := heapBytes()
	now := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	use(&counts, 0, MostRecent)
	counts.Tick(now)
	now = fill(&counts, keys, now)
	for name, c := range counts.current.Load().rules {
		// Each of 12 sketches has a byte for each register, and there is more.
		if kept := c.recent.keys.Load(); keys == 500 && kept != nil && kept.Bytes() < 12<<kept.Precision() {
			t.Fatalf("%s takes %d bytes: some of its sketches are still lists", name, kept.Bytes())
		}
	}
	took, reported := heapBytes()-before, counts.Bytes()
	t.Logf("%d rules: %d bytes, reported %d", MostRecent, took, reported)
	if took > mostBytes || reported > mostBytes || reported < took*9/10 || reported > took*11/10 {
		t.Errorf("%d rules take %d bytes, reported %d, want at most %d", MostRecent, took, reported, mostBytes)
	}
	use(&counts, MostRecent, rules)
	counts.Tick(now.Add(time.Second))
	if more := counts.Bytes(); more > reported+reported/100 {
		t.Errorf("%d rules are reported to take %d bytes, want %d as before", rules, more, reported)
	}
	if more := heapBytes() - before; more > mostBytes {
		t.Errorf("%d rules take %d bytes", rules, more)
	}
	if _, _, ok := counts.Past("rule" + strconv.Itoa(MostRecent)); ok {
		t.Error("one rule too many has a history")
	}
	runtime.KeepAlive(&counts)
}

// TestRoom: a removed rule makes room for others, which count from then on; a remaining one
// keeps its counts.
func TestRoom(t *testing.T) {
	var counts Tally
	counts.Follow(policyOf(t, 0, MostRecent+1))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	use(&counts, 0, MostRecent)
	counts.Tick(now)
	last := "rule" + strconv.Itoa(MostRecent)
	use(&counts, MostRecent, MostRecent+1)
	now = now.Add(time.Second)
	counts.Tick(now)
	if _, _, ok := counts.Keys(last); ok {
		t.Error("one rule too many has sketches")
	}
	counts.Follow(policyOf(t, 1, MostRecent+1))
	use(&counts, MostRecent, MostRecent+1)
	for range 2 {
		now = now.Add(time.Second)
		counts.Tick(now)
	}
	fine, _, ok := counts.Past(last)
	if sum := fine.Sum(); !ok || sum.Allowed != 1 {
		t.Errorf("got %+v, %v; want what came since there is room", sum, ok)
	}
	if hour, _, ok := counts.Keys(last); !ok || hour.Count().Seen != 1 {
		t.Errorf("got %v", ok)
	}
	if hour, _, ok := counts.Keys("rule1"); !ok || hour.Count().Seen != 1 || hour.Count().Error > 5 {
		t.Errorf("got %+v, %v", hour.Count(), ok)
	}
	if got := counts.current.Load().rules[last].recent.keys.Load().Precision(); got != sketch.Fine {
		t.Errorf("precision %d, want %d, as one of the finer has gone", got, sketch.Fine)
	}
}

// TestTopKeysRecent: the recent count of a key is never above the true one, whenever the list
// is turned, and equal to it while there are places for all keys.
func TestTopKeysRecent(t *testing.T) {
	for _, c := range []struct{ places, keys int }{{50, 40}, {10, 200}} {
		random := rand.New(rand.NewPCG(uint64(c.places), 7))
		l := newTopKeys(c.places)
		var halves [2]map[string]uint64
		halves[0], halves[1] = make(map[string]uint64), make(map[string]uint64)
		for range 200 {
			for range random.IntN(100) {
				key := fmt.Sprint(int(random.ExpFloat64()*20) % c.keys)
				l.add(key)
				halves[1][key]++
			}
			want, sum := make(map[string]uint64), uint64(0)
			for _, half := range halves {
				for key, n := range half {
					want[key] += n
					sum += n
				}
			}
			counts := l.top(c.places).Keys
			for _, k := range counts {
				if k.Recent > want[k.Key] || c.places > c.keys && k.Recent != want[k.Key] {
					t.Fatalf("key %s: got %d, want %d", k.Key, k.Recent, want[k.Key])
				}
			}
			recent, total := l.recent()
			if total != sum || !slices.IsSortedFunc(recent, func(a, b uint64) int { return int(b) - int(a) }) {
				t.Fatalf("got %v of %d, want of %d", recent, total, sum)
			}
			if random.IntN(3) == 0 {
				l.turn()
				halves[0], halves[1] = halves[1], make(map[string]uint64)
			}
		}
	}
}
