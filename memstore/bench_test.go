// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// benchLimiter returns a limiter on a store with the system's clock.
func benchLimiter(b *testing.B, text string) *sluice.Limiter {
	b.Helper()
	lim, err := sluice.New(memstore.New(memstore.Options{}), "bench", sluice.MustParseLimit(text))
	if err != nil {
		b.Fatal(err)
	}
	return lim
}

// scattered visits the keys in an order that no cache foresees.
func scattered(i, n int) int { return int(uint64(i) * 0x9e3779b97f4a7c15 >> 20 % uint64(n)) }

func BenchmarkTake(b *testing.B) {
	keys := keysOf(100_000)
	for _, bench := range []struct {
		name, text string
		keys       int
	}{
		{"hot", "1000000000/day", 1},
		{"denied", "1/day", 1},
		{"hot-window", "1000000000/h fixed-window", 1},
		{"hot-counter", "1000000000/h sliding-counter", 1},
		{"denied-window", "1/day fixed-window", 1},
		{"uniform", "1000000/day", len(keys)},
		{"uniform-idle", "1000000000/day", len(keys)},
		{"uniform-window", "1000000000/h fixed-window", len(keys)},
		{"uniform-log", "100/s sliding-log", len(keys)},
	} {
		b.Run(bench.name+"/serial", func(b *testing.B) {
			lim := benchLimiter(b, bench.text)
			for _, k := range keys[:bench.keys] {
				if _, err := lim.Take(b.Context(), k, 1); err != nil {
					b.Fatal(err)
				}
			}
			ctx := b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := lim.Take(ctx, keys[scattered(i, bench.keys)], 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bench.name+"/parallel", func(b *testing.B) {
			lim := benchLimiter(b, bench.text)
			for _, k := range keys[:bench.keys] {
				if _, err := lim.Take(b.Context(), k, 1); err != nil {
					b.Fatal(err)
				}
			}
			ctx := b.Context()
			b.ReportAllocs()
			var start atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(start.Add(1 << 30))
				for pb.Next() {
					i++
					if _, err := lim.Take(ctx, keys[scattered(i, bench.keys)], 1); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkNewKey takes for keys never seen before: a million in a new store,
// with all growth of its tables, and far beyond MaxKeys.
func BenchmarkNewKey(b *testing.B) {
	const million = 1_000_000
	keys := keysOf(million)
	for _, bench := range []struct {
		name    string
		maxKeys int
	}{{"growing", million}, {"flooded", million / 16}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			var lim *sluice.Limiter
			for i := range b.N {
				if i%million == 0 {
					b.StopTimer()
					var err error
					s := memstore.New(memstore.Options{MaxKeys: bench.maxKeys})
					if lim, err = sluice.New(s, "bench", sluice.PerDay(10)); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if _, err := lim.Take(ctx, keys[i%million], 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewKeyOfVersions takes new keys under a limit that has so many
// versions: tiers, overrides.
func BenchmarkNewKeyOfVersions(b *testing.B) {
	const million = 1_000_000
	keys := keysOf(million)
	for _, versions := range []int{1, 2, 100_000} {
		b.Run(strconv.Itoa(versions), func(b *testing.B) {
			limiters := make([]*sluice.Limiter, versions)
			var s *memstore.Store
			for i := range b.N {
				if i%million == 0 {
					b.StopTimer()
					s = memstore.New(memstore.Options{MaxKeys: 2 * million})
					for k := range limiters {
						var err error
						if limiters[k], err = sluice.New(s, "bench", sluice.PerDay(int64(k+10)).WithName("n")); err != nil {
							b.Fatal(err)
						}
						if _, err := limiters[k].Take(b.Context(), "first", 1); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
				}
				if _, err := limiters[i%1000%versions].Take(b.Context(), keys[i%million], 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWorstTake reports the longest call of many on a full store of a
// million keys. What the machine does meanwhile is in it: take the least of
// several runs.
func BenchmarkWorstTake(b *testing.B) {
	const million = 1_000_000
	for _, text := range []string{"10/day", "10/day fixed-window", "10/day sliding-log"} {
		b.Run(text, func(b *testing.B) {
			s := memstore.New(memstore.Options{MaxKeys: million})
			lim, err := sluice.New(s, "bench", sluice.MustParseLimit(text))
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			buf := make([]byte, 0, 32)
			take := func(i int) {
				buf = strconv.AppendInt(append(buf[:0], "user-"...), int64(i), 10)
				if _, err := lim.Take(ctx, string(buf), 1); err != nil {
					b.Fatal(err)
				}
			}
			for i := range million + million/4 {
				take(i)
			}
			var worst time.Duration
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				take(2*million + i)
				worst = max(worst, time.Since(start))
			}
			b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
		})
	}
}

// BenchmarkFirstTakes is what the first take under each of many limits costs, as
// when a policy of 10,000 rules starts: ns per limit.
func BenchmarkFirstTakes(b *testing.B) {
	for _, limits := range []int{100, 10_000} {
		b.Run(strconv.Itoa(limits), func(b *testing.B) {
			plans := make([]*sluice.Plan, limits)
			for i := range plans {
				plans[i] = testkit.Compile(b, "rule-"+strconv.Itoa(i), sluice.PerMinute(5))
			}
			for b.Loop() {
				store := memstore.New(memstore.Options{})
				for _, p := range plans {
					req := sluice.Request{Charge: sluice.Charge{Plan: p, Key: "k", Cost: 1}}
					if _, err := store.Take(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*limits), "ns/limit")
		})
	}
}
