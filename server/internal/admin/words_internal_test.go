// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestWordsOfBuckets: the words about a key are true for every kind of bucket.
func TestWordsOfBuckets(t *testing.T) {
	for _, c := range []struct {
		limit string
		left  int64
		want  string
	}{
		{"10/s", 4, "4 of 10 left, 6 used; refills 1 every 100ms; 1 more fits now"},
		{"10/min burst 20 interval-refill", 4, "4 of 20 left, 16 used; refills 10 every 1m0s; 1 more fits now"},
		{"10/min burst 20 aligned-refill", 4, "4 of 20 left, 16 used; refills 10 at each 1m0s of the clock; 1 more fits now"},
		{"10/s burst 5 warm-up 4s", 4, "4 of 5 left, 1 used; refills 1 every 100ms, up to three times slower while the key is cold; 1 more fits now"},
		{"10/s debt 5 next-waits", 9, "9 of 15 left, 6 used; refills 1 every 100ms; 1 more fits now"},
		{"10/s debt 5 next-waits", 15, "all 15 left"},
		{"10/s debt 5 next-waits", 0, "0 of 15 left; the last take spent more than was left, and the next waits until that is paid; refills 1 every 100ms; 1 more fits in 1s"},
	} {
		o := sluice.Outcome{Allowed: c.left > 0, Remaining: c.left}
		if !o.Allowed {
			o.RetryAfter = time.Second
		}
		if got := words(testkit.Plan(t, "s", c.limit).Term(0), o); got != c.want {
			t.Errorf("%s, %d left:\n got %s\nwant %s", c.limit, c.left, got, c.want)
		}
	}
}

// TestWordsOfBlocks: an operator reads whether a key is blocked, and how to end it.
func TestWordsOfBlocks(t *testing.T) {
	block := testkit.Plan(t, "s", "5/s", "20/min block 10min").Term(1)
	for _, c := range []struct {
		outcome sluice.Outcome
		want    string
	}{
		{sluice.Outcome{Allowed: true, Remaining: sluice.MaxQuota}, "not blocked, and nothing was denied recently; it takes 20 denials in 1m0s"},
		{sluice.Outcome{Allowed: true, Remaining: sluice.MaxQuota, ResetAfter: time.Second}, "not blocked; denied less than 20 times in the window that ends in 1s"},
		{sluice.Outcome{RetryAfter: time.Minute, ResetAfter: time.Minute}, "blocked for another 1m0s, whatever the other limits have left; a reset of the key ends it"},
	} {
		if got := words(block, c.outcome); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.outcome, got, c.want)
		}
	}
}
