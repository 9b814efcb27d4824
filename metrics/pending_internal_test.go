// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// tick adds one to its target.
type tick struct{ of *atomic.Int64 }

func (c tick) count() { c.of.Add(1) }

// TestPendingCountsOnce: values that several goroutines add at once count once each when a
// series is next collected.
func TestPendingCountsOnce(t *testing.T) {
	const goroutines, each = 8, 10_001
	var p pending[tick]
	var n atomic.Int64
	collected := p.before(prometheus.NewCounter(prometheus.CounterOpts{Name: "n"}))
	collect := func() {
		ch := make(chan prometheus.Metric, 1)
		collected.Collect(ch)
		<-ch
	}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range each {
				p.add(tick{&n})
				if i%1000 == 0 {
					collect()
				}
			}
		})
	}
	all.Wait()
	p.add(tick{&n})
	if got := n.Load(); got == goroutines*each+1 {
		t.Error("nothing was kept")
	}
	collect()
	if got := n.Load(); got != goroutines*each+1 {
		t.Errorf("counted %d of %d", got, goroutines*each+1)
	}
}
