// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicegate/sluice/internal/redistest"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// BenchmarkRedis presses every contender on Redis, each with a server of its
// own, by 64 goroutines or by one. It reports what the client and the server
// cost, and how long a call takes. Run it with a fixed number of takes, such as
// -benchtime=100000x, and one contender at a time.
func BenchmarkRedis(b *testing.B) {
	for _, l := range load.Redis() {
		b.Run("load="+l.Name, func(b *testing.B) {
			for _, callers := range []int{64, 1} {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
					for _, c := range peers.Redis() {
						if l.Limit.Burst <= 1_000_000 || c.Name != "zset-log" && c.Name != "sluice.sliding-log" {
							benchmarkRedis(b, l, callers, c)
						}
					}
				})
			}
		})
	}
}

func benchmarkRedis(b *testing.B, l load.Load, callers int, c peers.RedisContender) {
	// As in benchmarkTake: the function below runs several times.
	type setting struct {
		server *redisServer
		lim    peers.Limiter
		keys   load.Keys
	}
	set := sync.OnceValue(func() setting {
		s := setting{server: startRedis(b), keys: l.Keys(0)}
		s.lim = openRedis(b, c, s.server, l.Limit)
		warm := l.Warm()
		press(b, callers, warm.Len(), func(_, i int) error {
			_, err := s.lim.Take(warm.At(i))
			return err
		})
		return s
	})
	b.Run("who="+c.Name, func(b *testing.B) {
		s := set()
		tallies := make([]tally, callers)
		cost := s.server.begin(b)
		b.ResetTimer()
		took := press(b, callers, b.N, func(caller, i int) error {
			allowed, err := s.lim.Take(s.keys.At(i % s.keys.Len()))
			tallies[caller].add(allowed == l.Allowed, err)
			return nil
		})
		b.StopTimer()
		cost.report(b, s.server, b.N)
		reportTook(b, took)
		var sum tally
		for _, t := range tallies {
			sum.errs, sum.wrong = sum.errs+t.errs, sum.wrong+t.wrong
		}
		if sum.errs > 0 {
			b.ReportMetric(100*float64(sum.errs)/float64(b.N), "err%")
		}
		if sum.wrong > 0 {
			b.Fatalf("%d of %d takes were not allowed=%v", sum.wrong, b.N, l.Allowed)
		}
	})
}

// press calls do n times from a number of goroutines, the same number of times
// from each but for one. It returns how long each call took. Whatever do
// returns fails the benchmark.
func press(b *testing.B, callers, n int, do func(caller, i int) error) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := n * c / callers; i < n*(c+1)/callers; i++ {
				start := time.Now()
				if err := do(c, i); err != nil {
					errs[c] = err
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return took
}

func reportTook(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	micros := func(share float64) float64 {
		return took[int(share*float64(len(took)-1))].Seconds() * 1e6
	}
	b.ReportMetric(micros(0.5), "p50-µs")
	b.ReportMetric(micros(0.99), "p99-µs")
}

func startRedis(b *testing.B) *redisServer {
	b.Helper()
	s := redistest.Start(b, redistest.Redis(b))
	client, err := rueidis.NewClient(peers.RedisOption(s.Addr))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return &redisServer{Server: s, client: client}
}

func openRedis(b *testing.B, c peers.RedisContender, s *redisServer, l peers.Limit) peers.Limiter {
	b.Helper()
	return open(b, peers.Contender{Name: c.Name, New: func(l peers.Limit, _ int) (peers.Limiter, error) { return c.New(s.Addr, l) }}, l, 0)
}
