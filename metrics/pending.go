// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// pending collects values until there are several to count together, or a series is collected.
// If they were counted one by one, the memory of each series would have left the cache.
type pending[T counted] struct {
	mu   sync.Mutex
	n    int
	kept [32]T
}

// counted is a value that adds itself to its series.
type counted interface{ count() }

func (p *pending[T]) add(v T) {
	if !p.mu.TryLock() { // another goroutine holds it, and waiting gains nothing
		v.count()
		return
	}
	p.kept[p.n] = v
	if p.n++; p.n == len(p.kept) {
		p.flush()
	}
	p.mu.Unlock()
}

// flush counts the collected values. p.mu must be held.
func (p *pending[T]) flush() {
	for i := range p.n {
		p.kept[i].count()
	}
	p.n = 0
}

// before returns a collector that counts pending values before it collects c.
func (p *pending[T]) before(c prometheus.Collector) prometheus.Collector {
	return &flushed{c, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.flush()
	}}
}

type flushed struct {
	prometheus.Collector
	flush func()
}

// Collect implements [prometheus.Collector].
func (f *flushed) Collect(ch chan<- prometheus.Metric) {
	f.flush()
	f.Collector.Collect(ch)
}
