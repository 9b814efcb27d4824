// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
)

// BenchmarkRemote measures takes through what programs put around a store far
// away, with callers that may leave, as requests of HTTP do: over a store in this
// process, which shows what it costs by itself, and over Redis. Run it over Redis
// with a fixed number of takes, such as -benchtime=100000x.
func BenchmarkRemote(b *testing.B) {
	for _, load := range []struct {
		name  string
		keys  int
		limit sluice.Limit
	}{
		{"uniform", 100_000, sluice.Per(1_000_000, time.Second)},
		{"hot", 1, sluice.Per(1_000_000_000, time.Second)},
		{"denied", 1, sluice.PerHour(1)},
	} {
		keys := make([]string, load.keys)
		for i := range keys {
			keys[i] = fmt.Sprint("user-", i)
		}
		for _, who := range []string{"store", "remote"} {
			b.Run("load="+load.name+"/store=memory/callers=1/who="+who, func(b *testing.B) {
				b.ReportAllocs()
				lim := newRemote(b, who, memstore.New(memstore.Options{}), load.limit)
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				for i := range b.N {
					if _, err := lim.Take(ctx, keys[i*7919%len(keys)], 1); err != nil {
						b.Fatal(err)
					}
				}
			})
			for _, callers := range []int{64, 1} {
				b.Run(fmt.Sprintf("load=%s/store=redis/callers=%d/who=%s", load.name, callers, who), func(b *testing.B) {
					server := startRedis(b)
					lim := newRemote(b, who, openSluice(b, server, redisstore.Options{}), load.limit)
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					cost := server.begin(b)
					b.ResetTimer()
					took := press(b, callers, b.N, func(_, i int) error {
						_, err := lim.Take(ctx, keys[i*7919%len(keys)], 1)
						return err
					})
					b.StopTimer()
					cost.report(b, server, b.N)
					reportTook(b, took)
				})
			}
		}
	}
}

// newRemote returns a limiter on a store, or on what is put around it.
func newRemote(b *testing.B, who string, store sluice.Store, l sluice.Limit) *sluice.Limiter {
	b.Helper()
	if who == "remote" {
		store = wrapRemote(b, store, nil)
	}
	lim, err := sluice.New(store, "api", l)
	if err != nil {
		b.Fatal(err)
	}
	return lim
}
