// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"

	"github.com/sluicegate/sluice/bench/peers"
)

// TestRedis asks every contender on a server of its own for 5 units a day.
func TestRedis(t *testing.T) {
	limit := peers.Limit{Quota: 5, Window: 24 * time.Hour, Burst: 5}
	names := make(map[string]bool)
	for _, c := range peers.Redis() {
		t.Run(c.Name, func(t *testing.T) {
			if names[c.Name] {
				t.Fatalf("two contenders of the name %q", c.Name)
			}
			names[c.Name] = true
			lim, err := c.New(redistest.Start(t, redistest.Redis(t)).Addr, limit)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				got, err := lim.Take("alice")
				if err != nil {
					t.Fatal(err)
				}
				if want := i < 5 || c.Yardstick; got != want {
					t.Errorf("take %d of alice: got allowed=%v, want %v", i+1, got, want)
				}
			}
			if got, err := lim.Take("bob"); err != nil || !got {
				t.Errorf("take of bob: got %v, %v; want allowed", got, err)
			}
			if err := lim.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
