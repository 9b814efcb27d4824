// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// BenchmarkNear measures a take with a store in this process behind the cache.
func BenchmarkNear(b *testing.B) {
	terms := always(sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 100})
	for _, c := range []struct {
		name, limit string
		keys        int
		leased      bool
	}{
		{"asked", "1000000000/s", 1000, false},
		{"asked one key", "1000000000/s", 1, false},
		{"denied", "1/h", 1000, false},
		{"leased", "1000000000/s sliding-histogram", 1, true},
	} {
		plan := testkit.Plan(b, "bench", c.limit)
		reqs := make([]sluice.Request, c.keys)
		for i := range reqs {
			reqs[i] = testkit.Request(plan, fmt.Sprint("203.0.113.", i), 1)
		}
		var of func(*sluice.Plan) (sluice.LeaseTerms, bool)
		if c.leased {
			of = terms
		}
		run := func(name string, take func(*sluice.Request) error) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := take(&reqs[i%c.keys]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		ctx := context.Background()
		store := memstore.New(memstore.Options{MaxKeys: 10_000})
		run("store", func(req *sluice.Request) error { _, err := store.Take(ctx, *req); return err })
		s := newNearStore(memstore.New(memstore.Options{MaxKeys: 10_000}), Options{Lease: of})
		run("near", func(req *sluice.Request) error { _, err := s.take(ctx, req); return err })
	}
}
