// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	latencyEvery = 10 * time.Second
	latencySteps = 6 // kept: recent latencies are those of the last minute
)

// durations is a histogram of the store's operations since the start.
type durations struct {
	all   uint64
	below map[float64]uint64 // by upper bound in seconds, cumulative
}

// latencies keeps the histograms of recent instants, oldest first, to subtract them from the
// current one. It is safe for concurrent use.
type latencies struct {
	mu   sync.Mutex
	past []momentary
}

// momentary is the histogram at an instant.
type momentary struct {
	at time.Time
	durations
}

// keep records the histogram d at an instant.
func (l *latencies) keep(at time.Time, d durations) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) == latencySteps {
		l.past = slices.Delete(l.past, 0, 1)
	}
	l.past = append(l.past, momentary{at, d})
}

// late returns the durations since the oldest instant kept, and that instant. Without one it
// returns now and start.
func (l *latencies) late(now durations, start time.Time) (durations, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) == 0 {
		return now, start
	}
	first := l.past[0]
	late := durations{all: now.all - min(first.all, now.all), below: make(map[float64]uint64, len(now.below))}
	for end, n := range now.below {
		late.below[end] = n - min(first.below[end], n)
	}
	return late, first.at
}

// quantile returns the upper bound of the quantile's bucket in milliseconds, or 0 if d is
// empty.
func (d *durations) quantile(share float64) (ms float64) {
	if d.all == 0 {
		return 0
	}
	for _, end := range slices.Sorted(maps.Keys(d.below)) {
		if ms = math.Round(end*1e6) / 1e3; float64(d.below[end]) >= share*float64(d.all) {
			break
		}
	}
	return ms
}

// keepLatencies records the store's durations at intervals until ctx ends.
func (s *server) keepLatencies(ctx context.Context) {
	tick := time.NewTicker(latencyEvery)
	defer tick.Stop()
	s.latencies.keep(s.started, durations{})
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			if x, ok := s.scraped(); ok {
				s.latencies.keep(at, x.durations)
			}
		}
	}
}
