// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/cputime"
	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// BenchmarkStall looks for the slowest single calls. First it fills a limiter
// with 1,048,576 keys, the bound of those that have one ("fill"); then it goes
// on with twice as many calls, every second of them with a key never seen
// ("full"); and then, as a control of what the machine adds, with as many
// of keys that are there ("known"). Run it with -benchtime=1x.
//
// It times each call on the wall and by the CPU time of its thread, which
// leaves out what other work did to the machine meanwhile. Sweepers that start
// by a timer of minutes or hours do not show here.
func BenchmarkStall(b *testing.B) {
	for _, c := range peers.All() {
		if c.Name == "floor-one-word" {
			continue // has no keys
		}
		b.Run("who="+c.Name, func(b *testing.B) { benchmarkStall(b, c) })
	}
}

func benchmarkStall(b *testing.B, c peers.Contender) {
	const keys = 1 << 20
	lim := open(b, c, load.Lasting(), keys)
	fresh := load.Distinct(0, 2*keys)
	r := rand.New(rand.NewPCG(3, 4))
	runtime.GC()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	fill := timeCalls(b, lim, keys, fresh.At)
	next := keys
	full := timeCalls(b, lim, 2*keys, func(i int) string {
		if i%2 == 0 {
			return fresh.At(r.IntN(keys))
		}
		next++
		return fresh.At(next - 1)
	})
	// The keys that came last are there in a limiter that forgets the oldest.
	known := timeCalls(b, lim, 2*keys, func(int) string { return fresh.At(2*keys - 1 - r.IntN(keys/4)) })
	b.ReportMetric(0, "ns/op") // not shown
	fill.report(b, "fill")
	full.report(b, "full")
	known.report(b, "known")
}

// calls are the durations of many calls, on the wall and by the thread's CPU.
type calls struct{ wall, cpu []time.Duration }

func timeCalls(b *testing.B, lim peers.Limiter, n int, key func(int) string) calls {
	b.Helper()
	c := calls{make([]time.Duration, n), make([]time.Duration, n)}
	base := time.Now()
	for i := range n {
		k := key(i)
		cpu0, err := cputime.Thread()
		if err != nil {
			b.Fatal(err)
		}
		wall0 := time.Since(base)
		_, takeErr := lim.Take(k)
		wall1 := time.Since(base)
		cpu1, err := cputime.Thread()
		if err != nil {
			b.Fatal(err)
		}
		if takeErr != nil {
			b.Fatalf("%s: %v", k, takeErr)
		}
		c.wall[i], c.cpu[i] = wall1-wall0, cpu1-cpu0
	}
	return c
}

func (c calls) report(b *testing.B, phase string) {
	b.Helper()
	for _, clock := range []struct {
		name  string
		times []time.Duration
	}{{"wall", c.wall}, {"cpu", c.cpu}} {
		slices.Sort(clock.times)
		n := len(clock.times)
		b.ReportMetric(micros(clock.times[n-1]), phase+"-max-"+clock.name+"-µs")
		for _, part := range []struct {
			name string
			of   int
		}{{"p99.9", 1000}, {"p99.99", 10_000}, {"p99.999", 100_000}} {
			b.ReportMetric(micros(clock.times[n-1-n/part.of]), phase+"-"+part.name+"-"+clock.name+"-µs")
		}
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
