// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogramOf is a histogram whose series come into being with their first value.
type histogramOf struct {
	made   atomic.Pointer[prometheus.Observer]
	of     func() prometheus.Observer
	traced atomic.Int64 // when a trace was noted last, in ns since 1970
}

func (h *histogramOf) get() prometheus.Observer {
	if made := h.made.Load(); made != nil {
		return *made
	}
	made := h.of()
	h.made.CompareAndSwap(nil, &made)
	return *h.made.Load()
}

// The duration of a trace is noted with it if it is this long, and else once in a while:
// to note one costs twenty times what the rest does, and clients ask for it.
const (
	slow           = 250 * time.Millisecond
	tracesInterval = 100 * time.Millisecond
)

// observe adds a duration.
func (h *histogramOf) observe(d time.Duration) { h.get().Observe(d.Seconds()) }

// observeTraced adds a duration with the trace in which it was, if that is to be noted; else it
// reports that it has not.
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
