// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"strconv"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

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

// BenchmarkNewKeyOfVersions takes new keys under a limit with many versions, such as tiers and
// overrides.
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

// BenchmarkFirstTakes measures the first take under each of many limits, as when a policy of
// 10,000 rules starts, in ns per limit.
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
