// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// BenchmarkAlgo measures decisions alone: the state is at hand and the instant
// an argument. "paced" takes as fast as the limit allows for ever, so that
// each take is allowed and a log or histogram is full; "denied" asks for one
// unit more than is left.
func BenchmarkAlgo(b *testing.B) {
	meter := sluice.PerMinute(6000).WithAlgorithm(sluice.LeakyBucket{DelayAfter: 6000}).WithBurst(6000)
	interval := sluice.PerMinute(6000).WithAlgorithm(sluice.TokenBucket{Refill: sluice.Interval})
	parts := sluice.PerMinute(6000).WithAlgorithm(sluice.SlidingCounter{SubWindows: 60})
	cases := []struct {
		name  string
		limit sluice.Limit
	}{
		{"token-bucket", sluice.PerMinute(6000)},
		{"token-bucket-remainder", sluice.PerMinute(7001)}, // does not divide the window
		{"token-bucket-interval", interval},
		{"leaky-bucket-meter", meter},
		{"leaky-bucket-queue", sluice.PerMinute(6000).WithAlgorithm(sluice.LeakyBucket{}).WithBurst(6000)},
		{"fixed-window", sluice.PerMinute(6000).WithAlgorithm(sluice.FixedWindow{})},
		{"fixed-window-first", onFirst(sluice.PerMinute(6000))},
		{"fixed-window-calendar", sluice.MustParseLimit("600000/day calendar Asia/Seoul")},
		{"sliding-log", sluice.PerMinute(100).WithAlgorithm(sluice.SlidingLog{})},
		{"sliding-counter", sluice.PerMinute(6000).WithAlgorithm(sluice.SlidingCounter{})},
		{"sliding-counter-60", parts},
		{"sliding-histogram", sluice.PerMinute(1_000_000).WithAlgorithm(sluice.SlidingHistogram{})},
	}
	for _, denied := range []bool{false, true} {
		name := "take=paced"
		if denied {
			name = "take=denied"
		}
		b.Run(name, func(b *testing.B) {
			for _, c := range cases {
				b.Run("who="+c.name, func(b *testing.B) {
					plan, err := sluice.Compile("bench", c.limit)
					if err != nil {
						b.Fatal(err)
					}
					benchmarkDecide(b, plan, denied)
				})
			}
		})
	}
}

func onFirst(l sluice.Limit) sluice.Limit {
	return l.WithAlgorithm(sluice.FixedWindow{OnFirst: true})
}

func benchmarkDecide(b *testing.B, plan *sluice.Plan, denied bool) {
	term := plan.Term(0)
	req := sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "key", Cost: 1}}
	items := []algo.Item{{Term: term, Cost: 1}}
	// A whole day since 1970 at midnight in UTC, and so the start of a window.
	now := int64(20_000*24*time.Hour) / int64(time.Microsecond)
	// A little slower than the limit: an approximation may count up to 1/(k-1)
	// more than there was.
	step := term.Micros/term.Quota + term.Micros/term.Quota/16 + 1
	var spent int64
	for range 2 * term.Quota {
		if algo.Decide(&req, items, now).Allowed {
			spent++
		}
		if !denied || spent < term.Quota/2 {
			now += step
		}
	}
	if spent == 0 {
		b.Fatal("nothing was allowed")
	}
	var d sluice.Decision
	wrong := 0
	b.ReportAllocs()
	start := processTime(b)
	b.ResetTimer()
	for b.Loop() {
		if !denied {
			now += step
		}
		d = algo.Decide(&req, items, now)
		if d.Allowed == denied {
			wrong++
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
	if wrong > 0 {
		b.Fatalf("%d of %d takes: allowed=%v; the last: %+v", wrong, b.N, denied, d)
	}
}
