// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestFivePressesOneCast(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	fireball, err := newSkill(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at       time.Duration
		player   string
		cooldown time.Duration
	}{
		{0, "ann", 0},
		{200 * time.Millisecond, "ann", 2800 * time.Millisecond},
		{400 * time.Millisecond, "ann", 2600 * time.Millisecond},
		{600 * time.Millisecond, "ann", 2400 * time.Millisecond},
		{600 * time.Millisecond, "bob", 0}, // has a cooldown of his own
		{800 * time.Millisecond, "ann", 2200 * time.Millisecond},
		{3*time.Second - time.Microsecond, "ann", time.Microsecond},
		{3 * time.Second, "ann", 0},
		{time.Hour, "ann", 0},
		{time.Hour, "ann", 3 * time.Second}, // an hour's rest saves up nothing
	} {
		now = start.Add(c.at)
		if got, err := fireball.press(t.Context(), c.player); err != nil || got != c.cooldown {
			t.Errorf("%s after %v: cooldown %v, %v; want %v", c.player, c.at, got, err, c.cooldown)
		}
	}
}
