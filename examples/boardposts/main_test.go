// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

// TestFivePostsAMinute: of the clock.
func TestFivePostsAMinute(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	b, err := newBoard(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Duration{50 * time.Second, time.Minute} {
		now = start.Add(at)
		for i := range 6 {
			wait, err := b.post(t.Context(), "ann", "hello")
			want := time.Duration(0)
			if i == 5 {
				want = start.Add(at + time.Minute).Truncate(time.Minute).Sub(now)
			}
			if err != nil || wait != want {
				t.Errorf("message %d after %v: wait %v, %v, want %v", i+1, at, wait, err, want)
			}
		}
	}
	if len(b.posts) != 10 {
		t.Errorf("%d posts, want 10", len(b.posts))
	}
}
