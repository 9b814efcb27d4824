// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"
	"time"
)

// TestLatencies: the recent latencies are those of the last minute, however slow the store was
// before, and the memory is bounded.
func TestLatencies(t *testing.T) {
	var l latencies
	start := time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC)
	slow := durations{all: 1000, below: map[float64]uint64{0.001: 0, 0.01: 0, 1: 1000}}
	if d, since := l.late(slow, start); d.quantile(0.99) != 1000 || since != start {
		t.Errorf("before a moment is kept: %v since %v", d, since)
	}
	l.keep(start, durations{})
	if d, since := l.late(slow, start); d.quantile(0.5) != 1000 || since != start {
		t.Errorf("in the first minute: %v since %v", d, since)
	}
	at := start
	for i := range uint64(100) {
		at = at.Add(latencyEvery)
		l.keep(at, durations{all: 1000 + 10*i, below: map[float64]uint64{0.001: 9 * i, 0.01: 10 * i, 1: 1000 + 10*i}})
	}
	if len(l.past) != latencySteps {
		t.Errorf("%d moments are kept", len(l.past))
	}
	now := durations{all: 2000, below: map[float64]uint64{0.001: 900, 0.01: 1000, 1: 2000}}
	d, since := l.late(now, start)
	if d.quantile(0.5) != 1 || d.quantile(0.99) != 10 || d.all != 60 || at.Sub(since) != (latencySteps-1)*latencyEvery {
		t.Errorf("late: %v since %v", d, since)
	}
	l.keep(at, now)
	for range latencySteps {
		l.keep(at.Add(time.Minute), now)
	}
	if d, _ := l.late(now, start); d.all != 0 || d.quantile(0.99) != 0 {
		t.Errorf("a minute without requests: %v", d)
	}
}
