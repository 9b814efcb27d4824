// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// turnTakes is how many takes a contender of [BenchmarkRedisTurns] makes before
// the other has its turn.
const turnTakes = 100

// BenchmarkRedisTurns takes from one goroutine, from the contender and the bare GCRA
// script in turns, each with a server of its own. It reports the contender's p50
// and, as the median over the turns, its ratio to the script's: how fast the
// machine is changes less within a turn than from one process to the next. Run
// it with a fixed number of takes, such as -benchtime=10000x.
func BenchmarkRedisTurns(b *testing.B) {
	for _, who := range []string{"incr", "sluice", "sluice.alone"} {
		b.Run("who="+who, func(b *testing.B) { benchmarkTurns(b, who) })
	}
}

func benchmarkTurns(b *testing.B, who string) {
	l := uniform(b)
	keys := l.Keys(0)
	var lims [2]peers.Limiter
	for i, name := range []string{who, "gcra"} {
		lims[i] = openRedis(b, redisContender(b, name), startRedis(b), l.Limit)
		for k := range turnTakes { // its connection and its script
			if _, err := lims[i].Take(keys.At(k)); err != nil {
				b.Fatal(err)
			}
		}
	}
	var own, ratios []float64
	b.ResetTimer()
	for n := 0; n < b.N; n += turnTakes {
		var p50 [2]float64
		for i, lim := range lims {
			took := press(b, 1, turnTakes, func(_, k int) error {
				_, err := lim.Take(keys.At((n + k) % keys.Len()))
				return err
			})
			p50[i] = median(took).Seconds() * 1e6
		}
		own, ratios = append(own, p50[0]), append(ratios, p50[0]/p50[1])
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // not shown: it is that of both
	b.ReportMetric(median(own), "p50-µs")
	b.ReportMetric(median(ratios), "p50-of-gcra")
}

func uniform(b *testing.B) load.Load {
	b.Helper()
	all := load.Redis()
	i := slices.IndexFunc(all, func(l load.Load) bool { return l.Name == "uniform" })
	if i < 0 {
		b.Fatal("there is no uniform load")
	}
	return all[i]
}

// median sorts a list.
func median[T time.Duration | float64](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}
