// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestThirdAttemptIsBlocked(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	g, err := newGuard(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at      time.Duration
		card    string
		blocked bool
	}{
		{0, "a", false},
		{4 * time.Minute, "a", false},
		{8 * time.Minute, "a", true},
		{8 * time.Minute, "b", false},
		// Of the attempts let through one is left within 10 minutes, but the
		// one that was blocked counts too.
		{11 * time.Minute, "a", true},
		{20 * time.Minute, "a", false}, // only that of 11:00 is left
		{20*time.Minute + time.Second, "a", true},
		{time.Hour, "a", false},
	} {
		now = start.Add(c.at)
		if got, err := g.suspicious(t.Context(), c.card); err != nil || got != c.blocked {
			t.Errorf("card %s after %v: blocked %v, %v; want %v", c.card, c.at, got, err, c.blocked)
		}
	}
}
