// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"

	"github.com/sluicegate/sluice/bench/peers"
)

// TestAll asks every contender for 5 units a day: an adapter that measures
// another limit, or none, would make a comparison of nothing.
func TestAll(t *testing.T) {
	limit := peers.Limit{Quota: 5, Window: 24 * time.Hour, Burst: 5}
	names := make(map[string]bool)
	check := func(name string, endless, keyed bool, open func(*testing.T) (peers.Limiter, error)) {
		t.Run(name, func(t *testing.T) {
			if names[name] {
				t.Fatalf("two contenders of the name %q", name)
			}
			names[name] = true
			lim, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				if got, err := lim.Take("alice"); err != nil || got != (i < 5 || endless) {
					t.Errorf("take %d of alice: got allowed=%v, %v", i+1, got, err)
				}
			}
			if got, err := lim.Take("bob"); err != nil || got != keyed {
				t.Errorf("take of bob: got %v, %v; want allowed=%v", got, err, keyed)
			}
			if err := lim.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	for _, c := range peers.All() {
		check(c.Name, false, c.Name != "floor-one-word", func(*testing.T) (peers.Limiter, error) { return c.New(limit, 100) })
	}
	for _, c := range peers.Redis() { // each on a server of its own
		check("redis "+c.Name, c.Yardstick, true, func(t *testing.T) (peers.Limiter, error) {
			return c.New(redistest.Start(t, redistest.Redis(t)).Addr, limit)
		})
	}
}
