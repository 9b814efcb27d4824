// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// liveKeys is how many keys a limiter holds when its memory is measured. Each
// has spent one unit of a limit that gives it back in minutes.
const liveKeys = 1_000_000

// BenchmarkLive measures memory at 1,000,000 live keys: bytes and heap objects
// per key, and the CPU time of one full collection. Run it with
// -benchtime=1x; its ns/op means nothing.
//
// Each key is a string of its own that is dropped after the take, so a limiter
// that keeps the string pays for it.
func BenchmarkLive(b *testing.B) {
	for _, c := range peers.All() {
		if c.Name == "floor-one-word" {
			continue // has no keys
		}
		b.Run("who="+c.Name, func(b *testing.B) {
			before := settle()
			lim := open(b, c, load.Lasting(), liveKeys)
			text := make([]byte, 0, load.KeyBytes)
			for i := range liveKeys {
				key := string(load.AppendKey(text[:0], i))
				if allowed, err := lim.Take(key); err != nil || !allowed {
					b.Fatalf("%s: got %v, %v; want allowed", key, allowed, err)
				}
			}
			reportHeap(b, before, liveKeys)
			runtime.KeepAlive(lim)
		})
	}
}

// settle collects garbage until nothing is left to finalize and returns what
// is on the heap.
func settle() runtime.MemStats {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

// reportHeap reports what has come to the heap since before, per key, and the
// least CPU time of five full collections.
func reportHeap(b *testing.B, before runtime.MemStats, keys int) {
	b.Helper()
	after := settle()
	b.ReportMetric(0, "ns/op") // not shown
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(keys), "B/key")
	b.ReportMetric((float64(after.HeapObjects)-float64(before.HeapObjects))/float64(keys), "obj/key")
	least := time.Hour
	for range 5 {
		start := processTime(b)
		runtime.GC()
		least = min(least, processTime(b)-start)
	}
	b.ReportMetric(float64(least)/1e6, "gc-cpu-ms")
}
