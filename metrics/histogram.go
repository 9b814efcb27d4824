// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogramOf is a histogram whose series is made with its first value.
type histogramOf struct {
	made   atomic.Pointer[prometheus.Observer]
	of     func() prometheus.Observer
	traced atomic.Int64 // when a trace was last recorded, in ns since 1970
}

func (h *histogramOf) get() prometheus.Observer {
	if made := h.made.Load(); made != nil {
		return *made
	}
	made := h.of()
	h.made.CompareAndSwap(nil, &made)
	return *h.made.Load()
}

// A duration is recorded with its trace if it is at least slow, and otherwise once in a while:
// a trace costs twenty times as much as the rest, and clients decide that there is one.
const (
	slow           = 250 * time.Millisecond
	tracesInterval = 100 * time.Millisecond
)

// observe adds a duration.
func (h *histogramOf) observe(d time.Duration) { h.get().Observe(d.Seconds()) }

// observeTraced adds a duration with its trace if the trace must be recorded. Otherwise it
// reports false and adds nothing.
func (h *histogramOf) observeTraced(d time.Duration, traceID string, now time.Time) bool {
	last, at := h.traced.Load(), now.UnixNano()
	if d < slow && (at-last < int64(tracesInterval) || !h.traced.CompareAndSwap(last, at)) {
		return false
	}
	e, ok := h.get().(prometheus.ExemplarObserver)
	if ok {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
	}
	return ok
}
