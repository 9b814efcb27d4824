// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/teststore"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestOnRedis: nodes with a connection each lease one key of a real server, which knows
// nothing about leases. They never exceed the limit, and make few calls.
func TestOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	for _, text := range []string{"1000/h sliding-log", "1000/24h burst 1000", "1000/24h fixed-window anchor first", "1000/h sliding-histogram precision 600"} {
		t.Run(text, func(t *testing.T) {
			limit := sluice.MustParseLimit(text)
			terms := sluice.LeaseTerms{TTL: 20 * time.Second, Units: 10}
			under, err := algo.LeaseCost(testkit.Compile(t, "bound", limit), terms, 4)
			if err != nil {
				t.Fatal(err)
			}
			var nodes [4]*nearStore
			for i := range nodes {
				store := teststore.New(t, server.Addr, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
				nodes[i] = newNearStore(store, Options{Lease: always(terms)})
			}
			var allowed, taken atomic.Int64
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					lim, err := sluice.New(nodes[g%4], "shared", limit)
					if err != nil {
						t.Error(err)
						return
					}
					for range 500 {
						d, err := lim.Take(context.Background(), "hot", 1)
						if err != nil {
							t.Error(err)
							return
						}
						taken.Add(1)
						if d.Allowed {
							allowed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			var asked uint64
			for _, n := range nodes {
				asked += n.leases().Asked
				if err := n.giveBack(context.Background()); err != nil {
					t.Error(err)
				}
			}
			got := allowed.Load()
			if got > 1000 || got < 1000-under[0].Burst-under[0].Held {
				t.Errorf("%d allowed of a quota of 1000, want at most that and %v", got, under[0])
			}
			if n := taken.Load(); asked*100 > uint64(n)*13 {
				t.Errorf("%d calls for %d decisions, want at most 0.13 each", asked, n)
			}
			t.Logf("%d allowed, %d calls for %d decisions", got, asked, taken.Load())
		})
	}
}
