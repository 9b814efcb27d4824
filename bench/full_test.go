// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"

	"github.com/sluicegate/sluice/bench/load"
)

// BenchmarkFull measures the memory of algorithms whose state grows with what
// a key has spent, with every key's quota spent. Run it with -benchtime=1x.
func BenchmarkFull(b *testing.B) {
	hour := func(a sluice.Algorithm, quota int64) sluice.Limit { return sluice.PerHour(quota).WithAlgorithm(a) }
	cases := []struct {
		name  string
		limit sluice.Limit
		keys  int
		costs []run // spent by each key in turn; they add up to the quota
	}{
		{"sliding-log-100", hour(sluice.SlidingLog{}, 100), 100_000, []run{{100, 1}}},
		// A million takes of one unit a key would take hours. Old entries of a
		// histogram are merged while they are below 1/(k-1) of what came after
		// them, so old takes may as well be as large as that: the state ends up
		// as fine as after a million single units.
		{"sliding-histogram-1000000", hour(sluice.SlidingHistogram{}, 1_000_000), 5_000, []run{
			{900, 1000}, {900, 100}, {900, 10}, {1000, 1},
		}},
		{"sliding-histogram-100", hour(sluice.SlidingHistogram{}, 100), 100_000, []run{{100, 1}}},
		{"sub-windows-60", minuteParts(6000), 100_000, []run{{100, 60}}},
	}
	for _, c := range cases {
		b.Run("who="+c.name, func(b *testing.B) {
			before := settle()
			store := memstore.New(memstore.Options{})
			lim, err := sluice.New(store, "bench", c.limit)
			if err != nil {
				b.Fatal(err)
			}
			takes := 0
			start := time.Now()
			for _, r := range c.costs {
				for range r.times {
					takes += spendAll(b, lim, c.keys, r.cost)
				}
			}
			elapsed := time.Since(start)
			reportHeap(b, before, c.keys)
			b.ReportMetric(float64(elapsed)/float64(takes), "ns/take")
			runtime.KeepAlive(store)
		})
	}
}

// run is takes of one cost.
type run struct {
	times int
	cost  int64
}

// minuteParts is a sliding counter of an hour in minutes.
func minuteParts(quota int64) sluice.Limit {
	return sluice.PerHour(quota).WithAlgorithm(sluice.SlidingCounter{SubWindows: 60})
}

// spendAll takes cost units of each key once.
func spendAll(b *testing.B, lim *sluice.Limiter, keys int, cost int64) int {
	b.Helper()
	ctx := context.Background()
	text := make([]byte, 0, load.KeyBytes)
	for i := range keys {
		key := string(load.AppendKey(text[:0], i))
		d, err := lim.Take(ctx, key, cost)
		if err != nil || !d.Allowed {
			b.Fatal(fmt.Errorf("%s: got %+v, %w; want allowed", key, d, err))
		}
	}
	return keys
}
