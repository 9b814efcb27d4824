// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/sluicegate/sluice/bench/report"

// goals are what the project wants of memstore's token bucket through the
// public interface, and of the rest. They are shown beside what was measured;
// nothing fails by them. Times are those of the CPU, which on a machine with
// nothing else to do are those on the wall.
func goals() []report.Goal {
	const (
		uniform  = "Take/load=uniform/mode="
		hot      = "Take/load=hot/mode="
		serial   = "serial"
		parallel = "parallel"
	)
	var gs []report.Goal
	for _, m := range []string{serial, parallel} {
		gs = append(gs,
			report.Goal{Title: "100k keys, " + m + ": of the floor", Bench: uniform + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.3},
			report.Goal{Title: "100k keys, " + m + ": faster than go-limiter", Bench: uniform + m, Who: "sluice", To: "go-limiter", Unit: "cpu-ns/op", Invert: true, Want: 3},
			report.Goal{Title: "100k keys, " + m + ": faster than x/time/rate in a sync.Map", Bench: uniform + m, Who: "sluice", To: "xtime-syncmap", Unit: "cpu-ns/op", Invert: true, Want: 5},
			report.Goal{Title: "one hot key, " + m + ": of the floor", Bench: hot + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.3},
			report.Goal{Title: "one hot key denied, " + m + ": of the floor denying", Bench: "Take/load=hot-denied/mode=" + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.3},
		)
	}
	gs = append(gs,
		report.Goal{Title: "100k keys: allocations", Bench: uniform + serial, Who: "sluice", Unit: "allocs/op", Want: 0},
		report.Goal{Title: "a key never seen: CPU ns", Bench: "New", Who: "sluice", Unit: "cpu-ns/op", Want: 350},
		report.Goal{Title: "a key never seen: allocations", Bench: "New", Who: "sluice", Unit: "allocs/op", Want: 0},
	)
	for _, who := range []string{"sluice", "sluice.leaky-bucket", "sluice.fixed-window", "sluice.sliding-counter"} {
		gs = append(gs, report.Goal{Title: "1M live keys, " + who + ": B per key", Bench: "Live", Who: who, Unit: "B/key", Want: 40})
	}
	for _, who := range []string{"sluice", "sluice.leaky-bucket", "sluice.fixed-window", "sluice.sliding-counter", "sluice.sliding-log", "sluice.sliding-histogram"} {
		gs = append(gs,
			report.Goal{Title: "1M live keys, " + who + ": heap objects per key", Bench: "Live", Who: who, Unit: "obj/key", Want: 0.01},
			report.Goal{Title: "1M live keys, " + who + ": collection, CPU ms", Bench: "Live", Who: who, Unit: "gc-cpu-ms", Want: 2},
		)
	}
	gs = append(gs,
		report.Goal{Title: "sliding log of 100, full: B per key", Bench: "Full", Who: "sliding-log-100", Unit: "B/key", Want: 900},
		report.Goal{Title: "sliding histogram of 1,000,000, full: B per key", Bench: "Full", Who: "sliding-histogram-1000000", Unit: "B/key", Want: 5000},
		report.Goal{Title: "worst call while filling: CPU µs", Bench: "Stall", Who: "sluice", Unit: "fill-max-cpu-µs", Least: true, Want: 100},
		report.Goal{Title: "worst call when full: CPU µs", Bench: "Stall", Who: "sluice", Unit: "full-max-cpu-µs", Least: true, Want: 100},
	)
	for _, who := range decisions {
		want := 60.0
		if who == "sliding-histogram" {
			want = 120
		}
		for _, take := range []string{"paced", "denied"} {
			gs = append(gs, report.Goal{Title: "decision, " + who + ", " + take + ": ns", Bench: "Algo/take=" + take, Who: who, Unit: "cpu-ns/op", Want: want})
		}
	}
	return append(gs,
		report.Goal{Title: "which of 1,000 rules match: ns", Bench: "Rules/n=1000", Who: "sluice", Unit: "cpu-ns/op", Want: 2000},
		report.Goal{Title: "net/http request: ns added", Bench: "HTTP", Who: "sluice", From: "none", Unit: "cpu-ns/op", Want: 1500},
		report.Goal{Title: "net/http request: allocations added", Bench: "HTTP", Who: "sluice", From: "none", Unit: "allocs/op", Want: 6},
	)
}
