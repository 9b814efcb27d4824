// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/storekit"
)

// TestWordsOfBuckets: what an operator reads of a key is true of every kind of
// bucket.
func TestWordsOfBuckets(t *testing.T) {
	for _, c := range []struct {
		limit string
		left  int64
		want  string
	}{
		{"10/s", 4, "full is 10, 4 left: 6 count as spent; one comes back every 100ms; 1 more fits now"},
		{"10/min burst 20 interval-refill", 4, "full is 20, 4 left: 16 count as spent; up to 10 come back at once every 1m0s; 1 more fits now"},
		{"10/min burst 20 aligned-refill", 4, "full is 20, 4 left: 16 count as spent; up to 10 come back at once whenever 1m0s of the clock are over; 1 more fits now"},
		{"10/s burst 5 warm-up 4s", 4, "full is 5, 4 left: 1 count as spent; one comes back every 100ms, of a cold key up to three times as late; 1 more fits now"},
		{"10/s debt 5 next-waits", 9, "full is 15, 9 left: 6 count as spent; one comes back every 100ms; 1 more fits now"},
		{"10/s debt 5 next-waits", 15, "nothing is spent: all 15 are left"},
		{"10/s debt 5 next-waits", 0, "full is 15, 0 left: the last take has spent more than was there, and the next waits until that is paid; one comes back every 100ms; 1 more fits in 1s"},
	} {
		o := sluice.Outcome{Allowed: c.left > 0, Remaining: c.left}
		if !o.Allowed {
			o.RetryAfter = time.Second
		}
		if got := words(storekit.Plan(t, "s", c.limit).Term(0), o); got != c.want {
			t.Errorf("%s, %d left:\n got %s\nwant %s", c.limit, c.left, got, c.want)
		}
	}
}

// TestWordsOfBlocks: an operator reads whether a key is blocked, and how to end it.
func TestWordsOfBlocks(t *testing.T) {
	block := storekit.Plan(t, "s", "5/s", "20/min block 10min").Term(1)
	for _, c := range []struct {
		outcome sluice.Outcome
		want    string
	}{
		{sluice.Outcome{Allowed: true, Remaining: sluice.MaxQuota}, "not blocked, and nothing was denied of late; it takes 20 denials in 1m0s"},
		{sluice.Outcome{Allowed: true, Remaining: sluice.MaxQuota, ResetAfter: time.Second}, "not blocked; denied less than 20 times in the window that ends in 1s"},
		{sluice.Outcome{RetryAfter: time.Minute, ResetAfter: time.Minute}, "blocked for another 1m0s, whatever the other limits have left; a reset of the key ends it"},
	} {
		if got := words(block, c.outcome); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.outcome, got, c.want)
		}
	}
}
