// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histograms are those of one name. What they were given last is added when they are
// collected.
type histograms struct {
	*prometheus.HistogramVec

	mu  sync.Mutex
	all []*batch
}

func newHistograms(o prometheus.HistogramOpts, labels ...string) *histograms {
	return &histograms{HistogramVec: prometheus.NewHistogramVec(o, labels)}
}

// batchOf returns what adds to the histogram with these labels.
func (h *histograms) batchOf(labels ...string) *batch {
	b := &batch{to: h.WithLabelValues(labels...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, b)
	return b
}

// Collect is of [prometheus.Collector].
func (h *histograms) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	all := h.all
	h.mu.Unlock()
	for _, b := range all {
		b.mu.Lock()
		b.flush()
		b.mu.Unlock()
	}
	h.HistogramVec.Collect(ch)
}

// batch keeps durations until there are some to be added to a histogram together. One
// by one they take twice as long, as each finds the memory of the histogram in no cache.
type batch struct {
	to prometheus.Observer

	mu   sync.Mutex
	n    int
	kept [32]time.Duration
}

func (b *batch) observe(d time.Duration) {
	if !b.mu.TryLock() { // another is at it, and there is nothing to be won by waiting
		b.to.Observe(d.Seconds())
		return
	}
	b.kept[b.n] = d
	if b.n++; b.n == len(b.kept) {
		b.flush()
	}
	b.mu.Unlock()
}

// flush adds what is kept. b.mu must be held.
func (b *batch) flush() {
	for _, d := range b.kept[:b.n] {
		b.to.Observe(d.Seconds())
	}
	b.n = 0
}

// histogramOf is a histogram whose series come into being with their first value.
type histogramOf struct {
	made   atomic.Pointer[batch]
	of     func() *batch
	traced atomic.Int64 // when a trace was noted last, in ns since 1970
}

func (h *histogramOf) get() *batch {
	if b := h.made.Load(); b != nil {
		return b
	}
	h.made.CompareAndSwap(nil, h.of())
	return h.made.Load()
}

// The duration of a trace is noted with it if it is this long, and else once in a while:
// to note one costs twenty times what the rest does, and clients ask for it.
const (
	slow           = 250 * time.Millisecond
	tracesInterval = 100 * time.Millisecond
)

// observe adds a duration, with the trace in which it was if there is one.
func (h *histogramOf) observe(d time.Duration, traceID string, now time.Time) {
	b := h.get()
	if traceID != "" {
		last, at := h.traced.Load(), now.UnixNano()
		if e, ok := b.to.(prometheus.ExemplarObserver); ok && (d >= slow || at-last >= int64(tracesInterval) && h.traced.CompareAndSwap(last, at)) {
			e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	b.observe(d)
}
