// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// product begins the names of the contenders that are sluice. Measured by
// another build they are named before in its place.
const product = "sluice"

// turn is one benchmark of one contender.
type turn struct {
	bench string // as in report.Sample
	who   string
	// benchtime is a number of iterations, such as "1x"; empty is timed.
	benchtime string
	// busy is how many cores the benchmark keeps busy, for reporting whether the
	// machine gave them; 0 does not matter.
	busy int
	// before is whether another build's benchmark is run, that of -before.
	before bool
}

// pattern is the turn's -test.bench.
func (t turn) pattern() string {
	parts := strings.Split(t.bench+"/who="+t.who, "/")
	parts[0] = "Benchmark" + parts[0]
	for i, p := range parts {
		parts[i] = "^" + strings.ReplaceAll(p, ".", `\.`) + "$"
	}
	return strings.Join(parts, "/")
}

// group is benchmarks that go together.
type group struct {
	name  string
	turns func(cores int) []turn
}

func groups() []group {
	return []group{
		{"take", takeTurnsOf},
		{"new", everyone("New", "1000000x", 1)},
		{"live", everyone("Live", "1x", 0)},
		{"full", named("Full", "1x", "sliding-log-100", "sliding-histogram-1000000", "sliding-histogram-100", "sub-windows-60")},
		{"stall", everyone("Stall", "1x", 0)},
		{"contended", everyone("Contended", "1x", 0)},
		{"algo", algoTurns},
		{"rules", func(int) []turn {
			return []turn{{bench: "Rules/n=1000", who: "sluice", busy: 1}, {bench: "Rules/n=10000", who: "sluice", busy: 1}}
		}},
		{"http", named("HTTP", "", "none", "sluice", "sluice.clients", "sluice.denied", "httprate", "tollbooth")},
		{"grpc", named("GRPC", "", "none", "sluice", "sluice.fields", "sluice.denied")},
		{"redis", redisTurns},
		{"redis-state", redisStateTurns},
		{"remote", remoteTurns},
	}
}

func groupNames() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return names
}

// compared are the contenders that a goal names, by benchmark.
func compared() map[turn]bool {
	named := make(map[turn]bool)
	for _, g := range goals() {
		for _, who := range []string{g.Who, g.To, g.From} {
			named[turn{bench: g.Bench, who: who}] = true
		}
	}
	return named
}

// plan returns the turns of one round. Those of another build follow the same
// of this one.
func plan(o options) []turn {
	named := compared()
	var turns []turn
	for _, name := range o.groups {
		for _, g := range groups() {
			if g.name != name {
				continue
			}
			for _, t := range g.turns(o.cores) {
				if !o.who.MatchString(t.who) || o.goals && !named[turn{bench: t.bench, who: t.who}] {
					continue
				}
				turns = append(turns, t)
				if o.before != "" && strings.HasPrefix(t.who, product) {
					t.before = true
					turns = append(turns, t)
				}
			}
		}
	}
	return turns
}

func takeTurnsOf(cores int) []turn {
	var turns []turn
	for _, l := range load.All() {
		for _, mode := range modes(cores) {
			for _, c := range peers.All() {
				if l.Suits(c.Name) {
					turns = append(turns, turn{bench: "Take/load=" + l.Name + "/mode=" + mode.name, who: c.Name, busy: mode.busy})
				}
			}
		}
	}
	return turns
}

// everyone is a benchmark of all contenders that keep keys.
func everyone(bench, benchtime string, busy int) func(int) []turn {
	return func(int) []turn {
		var turns []turn
		for _, c := range peers.All() {
			if c.Name != "floor-one-word" {
				turns = append(turns, turn{bench: bench, who: c.Name, benchtime: benchtime, busy: busy})
			}
		}
		return turns
	}
}

// named is a benchmark with contenders of its own.
func named(bench, benchtime string, whos ...string) func(int) []turn {
	return func(int) []turn {
		var turns []turn
		for _, who := range whos {
			turns = append(turns, turn{bench: bench, who: who, benchtime: benchtime})
		}
		return turns
	}
}

// decisions are the contenders of the group algo.
var decisions = []string{
	"token-bucket", "token-bucket-remainder", "token-bucket-interval",
	"leaky-bucket-meter", "leaky-bucket-queue",
	"fixed-window", "fixed-window-first", "fixed-window-calendar",
	"sliding-log", "sliding-counter", "sliding-counter-60", "sliding-histogram",
}

func algoTurns(int) []turn {
	var turns []turn
	for _, take := range []string{"paced", "denied"} {
		for _, who := range decisions {
			turns = append(turns, turn{bench: "Algo/take=" + take, who: who, busy: 1})
		}
	}
	return turns
}

// redisTurns press servers with takes.
func redisTurns(int) []turn {
	var turns []turn
	for _, c := range []struct {
		bench, benchtime string
		whos             []string
	}{
		{"Redis/load=uniform/callers=64", "100000x", []string{"incr", "incr-go-redis", "return-1", "gcra", "sluice", "sluice.fixed-window", "sluice.sliding-counter", "redis_rate", "throttled"}},
		{"Redis/load=hot/callers=64", "100000x", []string{"incr", "gcra", "sluice", "sluice.alone", "redis_rate", "throttled"}},
		{"Redis/load=uniform/callers=1", "10000x", []string{"incr", "return-1", "gcra", "sluice", "redis_rate"}},
		{"RedisTurns", "10000x", []string{"incr", "sluice", "sluice.alone"}},
	} {
		for _, who := range c.whos {
			turns = append(turns, turn{bench: c.bench, who: who, benchtime: c.benchtime})
		}
	}
	return turns
}

// redisStateTurns are what does not depend on how fast the machine is, and what
// a log costs.
func redisStateTurns(cores int) []turn {
	var turns []turn
	for _, t := range []func(int) []turn{
		named("RedisDenied", "1x", "sluice.alone", "sluice", "deny-cache", "deny-cache.minute", "deny-cache.fixed-window", "deny-cache.sliding-log"),
		named("RedisLeased", "1x", "sluice.sliding-log", "leased.sliding-log", "leased.sliding-histogram", "leased.token-bucket"),
		named("RedisLog", "100000x", "sluice.alone", "sluice.sliding-log", "sluice.sliding-histogram", "zset-log"),
		named("RedisMemory", "1x", "sluice.alone", "sluice.leaky-bucket", "sluice.fixed-window", "sluice.sliding-counter",
			"sluice.sliding-log", "sluice.sliding-histogram", "gcra", "zset-log", "redis_rate", "throttled"),
	} {
		turns = append(turns, t(cores)...)
	}
	return turns
}

// remoteTurns take through what is put around a store far away.
func remoteTurns(int) []turn {
	var turns []turn
	for _, load := range []string{"hot", "uniform", "denied"} {
		for _, who := range []string{"store", "remote"} {
			turns = append(turns,
				turn{bench: "Remote/load=" + load + "/store=memory/callers=1", who: who, busy: 1},
				turn{bench: "Remote/load=" + load + "/store=redis/callers=64", who: who, benchtime: "100000x"},
				turn{bench: "Remote/load=" + load + "/store=redis/callers=1", who: who, benchtime: "10000x"})
		}
	}
	return turns
}

// mode is a number of goroutines.
type mode struct {
	name string
	busy int
}

func modes(cores int) []mode { return []mode{{"serial", 1}, {"parallel", cores}} }
