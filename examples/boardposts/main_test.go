// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestFivePostsAMinute(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	b, err := newBoard(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at     time.Duration // since 10:00:00
		author string
		times  int
		posted int
		wait   time.Duration // of those that were not
	}{
		{50 * time.Second, "ann", 7, 5, 10 * time.Second},
		{50 * time.Second, "bob", 1, 1, 0},
		{60*time.Second - time.Microsecond, "ann", 1, 0, time.Microsecond},
		{60 * time.Second, "ann", 6, 5, time.Minute}, // the next minute of the clock
		{119 * time.Second, "ann", 1, 0, time.Second},
		{time.Hour, "ann", 6, 5, time.Minute},
	} {
		now = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC).Add(c.at)
		before := len(b.posts)
		for range c.times {
			wait, err := b.post(t.Context(), c.author, "hello")
			if err != nil || wait != 0 && wait != c.wait {
				t.Errorf("%s after %v: wait %v, %v; want %v", c.author, c.at, wait, err, c.wait)
			}
		}
		if got := len(b.posts) - before; got != c.posted {
			t.Errorf("%s after %v: %d posted, want %d", c.author, c.at, got, c.posted)
		}
	}
}
