// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// redisContender returns the one of that name.
func redisContender(b *testing.B, name string) peers.RedisContender {
	b.Helper()
	all := peers.Redis()
	i := slices.IndexFunc(all, func(c peers.RedisContender) bool { return c.Name == name })
	if i < 0 {
		b.Fatalf("no contender %q", name)
	}
	return all[i]
}

// BenchmarkRedisLog has 64 goroutines press 16 keys that each hold thousands of
// units of a quota of 10,000 a second, a call for every take, so that in a log
// about one entry expires with each. Run it with a fixed number of takes.
func BenchmarkRedisLog(b *testing.B) {
	const keys = 16
	for _, name := range []string{"sluice.alone", "sluice.sliding-log", "sluice.sliding-histogram", "zset-log"} {
		b.Run("who="+name, func(b *testing.B) {
			if b.N == 1 {
				return // the first of two runs: see testing.B
			}
			server := startRedis(b)
			lim := openRedis(b, redisContender(b, name), server, peers.Limit{Quota: 10_000, Window: time.Second, Burst: 10_000})
			names := load.Distinct(0, keys)
			take := func(_, i int) error {
				_, err := lim.Take(names.At(i % keys))
				return err
			}
			press(b, 64, keys*10_000, take)
			cost := server.begin(b)
			b.ResetTimer()
			press(b, 64, b.N, take)
			b.StopTimer()
			cost.report(b, server, b.N)
		})
	}
}

// BenchmarkRedisMemory shows what MEMORY USAGE does of a key whose quota of 100
// is spent, on average over a hundred keys. Run it with -benchtime=1x.
func BenchmarkRedisMemory(b *testing.B) {
	const keys, units = 100, 100
	for _, name := range []string{
		"sluice.alone", "sluice.leaky-bucket", "sluice.fixed-window", "sluice.sliding-counter",
		"sluice.sliding-log", "sluice.sliding-histogram", "gcra", "zset-log", "redis_rate", "throttled",
	} {
		b.Run("who="+name, func(b *testing.B) {
			server := startRedis(b)
			lim := openRedis(b, redisContender(b, name), server, peers.Limit{Quota: units, Window: time.Hour, Burst: units})
			for i := range keys {
				for range units {
					if _, err := lim.Take(fmt.Sprintf("user:%011d", i)); err != nil {
						b.Fatal(err)
					}
				}
			}
			list, err := server.client.Do(b.Context(), server.client.B().Keys().Pattern("*").Build()).AsStrSlice()
			if err != nil || len(list) != keys {
				b.Fatalf("got %d keys, %v; want %d", len(list), err, keys)
			}
			var sum int64
			for _, key := range list {
				sum += server.memory(b, key)
			}
			b.ReportMetric(0, "ns/op") // not shown
			b.ReportMetric(float64(sum)/keys, "B/key")
		})
	}
}
