// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/cputime"
	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// tableKeys is the room that bounded contenders are given for the take loads.
const tableKeys = 100_000

// BenchmarkTake presses every contender with every load, by one goroutine and
// by one on each core. Besides ns/op it reports the CPU time of a take.
func BenchmarkTake(b *testing.B) {
	for _, l := range load.All() {
		b.Run("load="+l.Name, func(b *testing.B) {
			for _, mode := range []string{"serial", "parallel"} {
				b.Run("mode="+mode, func(b *testing.B) {
					for _, c := range peers.All() {
						if l.Suits(c.Name) {
							benchmarkTake(b, l, mode == "parallel", c)
						}
					}
				})
			}
		})
	}
}

func benchmarkTake(b *testing.B, l load.Load, parallel bool, c peers.Contender) {
	// The function below runs several times with a growing b.N: make the keys
	// and the limiter once, and only if this contender was asked for.
	keys := sync.OnceValue(func() []load.Keys {
		streams := make([]load.Keys, 1)
		if parallel {
			streams = make([]load.Keys, runtime.GOMAXPROCS(0))
		}
		for i := range streams {
			streams[i] = l.Keys(i)
		}
		return streams
	})
	limiter := sync.OnceValue(func() peers.Limiter {
		lim := open(b, c, l.Limit, tableKeys)
		warm := l.Warm()
		for i := range warm.Len() {
			if allowed, err := lim.Take(warm.At(i)); err != nil || !allowed {
				b.Fatalf("first take of %s: got %v, %v; want allowed", warm.At(i), allowed, err)
			}
		}
		runtime.GC()
		return lim
	})
	b.Run("who="+c.Name, func(b *testing.B) {
		lim, keys := limiter(), keys()
		b.ReportAllocs()
		var errs, wrong int64
		start := processTime(b)
		b.ResetTimer()
		if parallel {
			errs, wrong = takeParallel(b, lim, keys, l.Allowed)
		} else {
			var t tally
			keys := keys[0]
			for i := 0; b.Loop(); i++ {
				if i == keys.Len() {
					i = 0
				}
				allowed, err := lim.Take(keys.At(i))
				t.add(allowed == l.Allowed, err)
			}
			errs, wrong = t.errs, t.wrong
		}
		b.StopTimer()
		b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
		if errs > 0 {
			b.ReportMetric(100*float64(errs)/float64(b.N), "err%")
		}
		if wrong > 0 {
			b.Fatalf("%d of %d takes were not allowed=%v", wrong, b.N, l.Allowed)
		}
	})
}

// tally counts answers that are no decisions, and decisions that are wrong.
type tally struct{ errs, wrong int64 }

func (t *tally) add(right bool, err error) {
	switch {
	case err != nil:
		t.errs++
	case !right:
		t.wrong++
	}
}

func takeParallel(b *testing.B, lim peers.Limiter, streams []load.Keys, want bool) (errs, wrong int64) {
	var started, allErrs, allWrong atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		keys := streams[int(started.Add(1)-1)%len(streams)]
		var t tally
		for i := 0; pb.Next(); {
			allowed, err := lim.Take(keys.At(i))
			t.add(allowed == want, err)
			if i++; i == keys.Len() {
				i = 0
			}
		}
		allErrs.Add(t.errs)
		allWrong.Add(t.wrong)
	})
	return allErrs.Load(), allWrong.Load()
}

// BenchmarkNew presses with keys never seen, b.N of them, from an empty
// limiter on: the growth of its tables is part of the time. Run it with a
// fixed number, such as -benchtime=1000000x.
func BenchmarkNew(b *testing.B) {
	for _, c := range peers.All() {
		b.Run("who="+c.Name, func(b *testing.B) {
			keys := load.Distinct(0, b.N)
			lim := open(b, c, load.Lasting(), 1<<20)
			runtime.GC()
			b.ReportAllocs()
			start := processTime(b)
			b.ResetTimer()
			for i := range b.N {
				if allowed, err := lim.Take(keys.At(i)); err != nil || !allowed {
					b.Fatalf("%s: got %v, %v; want allowed", keys.At(i), allowed, err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// open makes a contender's limiter, closed when the benchmark ends.
func open(b *testing.B, c peers.Contender, l peers.Limit, keys int) peers.Limiter {
	b.Helper()
	lim, err := c.New(l, keys)
	if err != nil {
		b.Fatalf("%s: %v", c.Name, err)
	}
	b.Cleanup(func() {
		if err := lim.Close(); err != nil {
			b.Errorf("%s: close: %v", c.Name, err)
		}
	})
	return lim
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	d, err := cputime.Process()
	if err != nil {
		b.Fatal(err)
	}
	return d
}
