// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"testing"
	"time"
)

// TestCensus: nodes that return one by one after an outage, and another outage soon after, do
// not lower the divisor of limits.
func TestCensus(t *testing.T) {
	t.Parallel()
	var c census
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	heard := func(after time.Duration, n, want int64) {
		t.Helper()
		now = now.Add(after)
		if got := c.heard(n, now); got != want {
			t.Errorf("%d were heard of: got %d, want %d", n, got, want)
		}
	}
	heard(0, 1, 1)
	heard(DefaultBeat, 3, 3)
	for range 3 { // outages of an hour, with ten seconds in between
		c.missed = true
		heard(time.Hour, 1, 3)
		heard(DefaultBeat, 2, 3)
	}
	heard(DefaultBeat, 3, 3)
	heard(DefaultBeat, 2, 3) // one has left
	heard(heartbeatTTL, 2, 2)
}
