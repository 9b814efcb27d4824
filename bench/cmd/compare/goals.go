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
	idle := map[string]float64{serial: 1.4, parallel: 1.5}
	for _, m := range []string{serial, parallel} {
		gs = append(gs,
			report.Goal{Title: "100k keys, " + m + ": of the floor", Bench: uniform + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.3},
			report.Goal{Title: "100k idle keys, " + m + ": of the floor", Bench: "Take/load=uniform-idle/mode=" + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: idle[m]},
			report.Goal{Title: "100k keys, " + m + ": faster than go-limiter", Bench: uniform + m, Who: "sluice", To: "go-limiter", Unit: "cpu-ns/op", Invert: true, Want: 3},
			report.Goal{Title: "100k keys, " + m + ": faster than x/time/rate in a sync.Map", Bench: uniform + m, Who: "sluice", To: "xtime-syncmap", Unit: "cpu-ns/op", Invert: true, Want: 5},
			report.Goal{Title: "one hot key, " + m + ": of the floor", Bench: hot + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.33},
			report.Goal{Title: "one hot key denied, " + m + ": of the floor denying", Bench: "Take/load=hot-denied/mode=" + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.33},
			report.Goal{Title: "100k keys in Zipf order, " + m + ": of the floor", Bench: "Take/load=zipf/mode=" + m, Who: "sluice", To: "floor", Unit: "cpu-ns/op", Want: 1.3},
		)
	}
	gs = append(gs,
		// The clock alone takes a third of go-limiter's time, so three times as fast cannot be.
		report.Goal{Title: "one hot key: faster than go-limiter", Bench: hot + serial, Who: "sluice", To: "go-limiter", Unit: "cpu-ns/op", Invert: true, Want: 2},
		report.Goal{Title: "100k keys: allocations", Bench: uniform + serial, Who: "sluice", Unit: "allocs/op", Want: 0},
		report.Goal{Title: "100k idle keys: allocations", Bench: "Take/load=uniform-idle/mode=" + serial, Who: "sluice", Unit: "allocs/op", Want: 0},
		report.Goal{Title: "one hot key, fixed window: of the floor", Bench: hot + serial, Who: "sluice.fixed-window", To: "floor", Unit: "cpu-ns/op", Want: 1.5},
		report.Goal{Title: "one hot key, sliding counter: of the floor", Bench: hot + serial, Who: "sluice.sliding-counter", To: "floor", Unit: "cpu-ns/op", Want: 2.2},
		report.Goal{Title: "one hot key, refill in intervals: of the floor", Bench: hot + serial, Who: "sluice.interval", To: "floor", Unit: "cpu-ns/op", Want: 2.2},
		report.Goal{Title: "one hot key, fixed window: faster than go-limiter's", Bench: hot + serial, Who: "sluice.fixed-window", To: "go-limiter", Unit: "cpu-ns/op", Invert: true, Want: 1},
		report.Goal{Title: "a key never seen: CPU ns", Bench: "New", Who: "sluice", Unit: "cpu-ns/op", Want: 350},
		report.Goal{Title: "a key never seen: allocations", Bench: "New", Who: "sluice", Unit: "allocs/op", Want: 0},
	)
	// What they took at 34ef9f3 is wanted of a counter and a log: about 500 and 1,100 ns.
	for _, g := range []report.Goal{{Who: "sluice.fixed-window", Want: 350}, {Who: "sluice.sliding-counter", Want: 500}, {Who: "sluice.sliding-log", Want: 1100}} {
		g.Title, g.Bench, g.Unit = "a key never seen, "+g.Who+": CPU ns", "New", "cpu-ns/op"
		gs = append(gs, g)
	}
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
		report.Goal{Title: "sliding histogram of 1,000,000, full: B per key", Bench: "Full", Who: "sliding-histogram-1000000", Unit: "B/key", Want: 4096},
		report.Goal{Title: "slowest call but one in 100,000 when full, token bucket: CPU µs", Bench: "Stall", Who: "sluice", Unit: "full-p99.999-cpu-µs", Want: 100},
		report.Goal{Title: "slowest call but one in 100,000 when full, sliding log: CPU µs", Bench: "Stall", Who: "sluice.sliding-log", Unit: "full-p99.999-cpu-µs", Want: 100},
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
	gs = append(gs, redisGoals()...)
	return append(gs,
		report.Goal{Title: "which of 1,000 rules match: ns", Bench: "Rules/n=1000", Who: "sluice", Unit: "cpu-ns/op", Want: 2000},
		report.Goal{Title: "net/http request: ns added", Bench: "HTTP", Who: "sluice", From: "none", Unit: "cpu-ns/op", Want: 1500},
		report.Goal{Title: "… of clients and answers that all differ: ns added", Bench: "HTTP", Who: "sluice.clients", From: "none", Unit: "cpu-ns/op", Want: 1500},
		report.Goal{Title: "net/http request, denied: ns added", Bench: "HTTP", Who: "sluice.denied", From: "none", Unit: "cpu-ns/op", Want: 1500},
		report.Goal{Title: "net/http request: allocations added", Bench: "HTTP", Who: "sluice", From: "none", Unit: "allocs/op", Want: 6},
		report.Goal{Title: "gRPC unary call: CPU ns added", Bench: "GRPC", Who: "sluice", From: "none", Unit: "cpu-ns/op", Want: 2000},
		report.Goal{Title: "gRPC unary call: allocations added", Bench: "GRPC", Who: "sluice", From: "none", Unit: "allocs/op", Want: 6},
	)
}

// redisGoals are what the project wants of redisstore. Rates are compared on
// the wall: client and server press the same cores.
func redisGoals() []report.Goal {
	const (
		uniform = "Redis/load=uniform/callers=64"
		hot     = "Redis/load=hot/callers=64"
		cost    = "redis-s/100k"
		calls   = "calls/decision"
	)
	gs := []report.Goal{
		{Title: "Redis, 100k keys: faster than redis_rate", Bench: uniform, Who: "sluice", To: "redis_rate", Unit: "ns/op", Invert: true, Want: 2.1},
		{Title: "Redis, 100k keys: as fast as the bare GCRA script", Bench: uniform, Who: "sluice", To: "gcra", Unit: "ns/op", Invert: true, Want: 0.95},
		{Title: "Redis, 100k keys: p99, of the bare GCRA script's", Bench: uniform, Who: "sluice", To: "gcra", Unit: "p99-µs", Want: 1.3},
		{Title: "Redis, 100k keys: the server's CPU, of redis_rate's", Bench: uniform, Who: "sluice", To: "redis_rate", Unit: cost, Want: 0.6},
		{Title: "Redis, one hot key: faster than redis_rate", Bench: hot, Who: "sluice", To: "redis_rate", Unit: "ns/op", Invert: true, Want: 12},
		{Title: "Redis, one goroutine: p50, of the bare GCRA script's in turns with it", Bench: "RedisTurns", Who: "sluice", Unit: "p50-of-gcra", Want: 1.1},
	}
	for _, who := range []string{"sluice.fixed-window", "sluice.sliding-counter"} {
		gs = append(gs, report.Goal{Title: "Redis, 100k keys, " + who + ": the server's CPU, of a token bucket's", Bench: uniform, Who: who, To: "sluice", Unit: cost, Want: 1.15})
	}
	// Each unit of a bucket that comes back takes a call, and a tenth of the takes
	// has one.
	for who, want := range map[string]float64{"deny-cache.minute": 0.11, "deny-cache.fixed-window": 0.1, "deny-cache.sliding-log": 0.1} {
		gs = append(gs,
			report.Goal{Title: "Redis, key at 10× its limit, " + who + ": calls per decision", Bench: "RedisDenied", Who: who, Unit: calls, Want: want},
			report.Goal{Title: "Redis, key at 10× its limit, " + who + ": wrong verdicts", Bench: "RedisDenied", Who: who, Unit: "wrong", Want: 0},
		)
	}
	for _, who := range []string{"leased.sliding-log", "leased.sliding-histogram", "leased.token-bucket"} {
		gs = append(gs,
			report.Goal{Title: "Redis, 8 nodes, key at 2× its limit, " + who + ": calls per decision", Bench: "RedisLeased", Who: who, Unit: calls, Want: 0.13},
			report.Goal{Title: "Redis, 8 nodes, key at 2× its limit, " + who + ": admitted over the limit", Bench: "RedisLeased", Who: who, Unit: "over", Want: 0},
			report.Goal{Title: "Redis, 8 nodes, key at 2× its limit, " + who + ": % denied that an exact limiter admits", Bench: "RedisLeased", Who: who, Unit: "%lost", Want: 4},
		)
	}
	for _, load := range []string{"hot", "uniform"} {
		through := "Remote/load=" + load + "/store=memory/callers=1"
		gs = append(gs,
			report.Goal{Title: "remote, " + load + ", memory behind: ns", Bench: through, Who: "remote", Unit: "ns/op", Want: 1200},
			report.Goal{Title: "remote, " + load + ", memory behind: allocations", Bench: through, Who: "remote", Unit: "allocs/op", Want: 2})
	}
	return append(gs,
		report.Goal{Title: "Redis, sliding log of 10,000: the server's CPU, of a token bucket's", Bench: "RedisLog", Who: "sluice.sliding-log", To: "sluice.alone", Unit: cost, Want: 1.7},
		report.Goal{Title: "Redis, token bucket: B per key", Bench: "RedisMemory", Who: "sluice.alone", Unit: "B/key", Want: 120},
		report.Goal{Title: "Redis, full sliding log of 100: B per key", Bench: "RedisMemory", Who: "sluice.sliding-log", Unit: "B/key", Want: 1100},
	)
}
