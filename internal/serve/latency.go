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
	latencySteps = 6 // that are kept: recent latencies are those of the last minute
)

// durations are how many operations of the store took how long, since the start.
type durations struct {
	all   uint64
	below map[float64]uint64 // by the upper ends of buckets in seconds, those below included
}

// latencies keeps the durations of some recent moments, oldest first, of which the
// difference to those of now is taken. It is safe for concurrent use.
type latencies struct {
	mu   sync.Mutex
	past []momentary
}

// momentary are the durations up to a moment.
type momentary struct {
	at time.Time
	durations
}

// keep records the durations up to a moment.
func (l *latencies) keep(at time.Time, d durations) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) == latencySteps {
		l.past = slices.Delete(l.past, 0, 1)
	}
	l.past = append(l.past, momentary{at, d})
}

// late returns the durations since the first moment that is kept, and that. Without one
// they are those since the start.
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

// quantile returns the upper end of the bucket in which it lies, in milliseconds; 0
// where there is nothing.
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

// keepLatencies keeps what the store has taken recently, until ctx ends.
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
