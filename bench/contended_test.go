// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/peers"
)

// pressFor is half a window more than ten, so that it does not matter when
// exactly the last window began.
const pressFor = 1050 * time.Millisecond

// BenchmarkContended has 64 goroutines press one key and reports what was
// admitted in per cent of what is due. Of a bucket that is its burst, and the
// rate times the time that passed; of an algorithm with windows its quota for
// each window that began. Windows on the clock may have begun once more.
// Run it with -benchtime=1x.
func BenchmarkContended(b *testing.B) {
	for _, c := range peers.All() {
		b.Run("who="+c.Name, func(b *testing.B) {
			l := load.Pressed()
			lim := open(b, c, l, tableKeys)
			admitted, errs, elapsed := pressOne(lim, pressFor)
			due := float64(l.Burst) + float64(l.Quota)*float64(elapsed)/float64(l.Window)
			if c.Windowed {
				due = float64(l.Quota * (int64(elapsed/l.Window) + 1))
			}
			b.ReportMetric(0, "ns/op") // not shown
			b.ReportMetric(100*float64(admitted)/due, "%due")
			if errs > 0 {
				b.ReportMetric(float64(errs), "errs")
			}
		})
	}
}

func pressOne(lim peers.Limiter, length time.Duration) (admitted, errs int64, elapsed time.Duration) {
	var allowed, failed atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	for range 64 {
		wg.Go(func() {
			for !stop.Load() {
				ok, err := lim.Take("key")
				switch {
				case err != nil:
					failed.Add(1)
				case ok:
					allowed.Add(1)
				}
			}
		})
	}
	time.Sleep(length)
	stop.Store(true)
	wg.Wait()
	return allowed.Load(), failed.Load(), time.Since(start)
}
