// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"

	"github.com/sluicegate/sluice/bench/peers"
)

const (
	hotQuota = 1000 // per second, of the benchmarks below
	hotFor   = 4 * time.Second
)

// taken is one take: when it began and ended, and its result.
type taken struct {
	began, ended time.Duration
	allowed      bool
}

// pace takes from callers goroutines at a fixed rate altogether, each at its
// turn however late the others are, and returns all takes.
func pace(b *testing.B, callers, perSecond int, lasts time.Duration, take func(caller int) (bool, error)) []taken {
	b.Helper()
	all := make([][]taken, callers)
	errs := make([]error, callers)
	every := time.Duration(callers) * time.Second / time.Duration(perSecond)
	var wg sync.WaitGroup
	start := time.Now()
	for c := range callers {
		wg.Go(func() {
			for due := every * time.Duration(c) / time.Duration(callers); due < lasts; due += every {
				time.Sleep(time.Until(start.Add(due)))
				t := taken{began: time.Since(start)}
				if t.allowed, errs[c] = take(c); errs[c] != nil {
					return
				}
				t.ended = time.Since(start)
				all[c] = append(all[c], t)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return slices.Concat(all...)
}

func admitted(takes []taken) (n int) {
	for _, t := range takes {
		if t.allowed {
			n++
		}
	}
	return n
}

// exact returns how many of the takes an exact limiter in one process admits.
func exact(b *testing.B, takes []taken, l sluice.Limit) (n int) {
	b.Helper()
	slices.SortFunc(takes, func(x, y taken) int { return int(x.began - y.began) })
	start, now := time.Now(), time.Now()
	lim, err := sluice.New(memstore.New(memstore.Options{Now: func() time.Time { return now }}), "exact", l)
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range takes {
		now = start.Add(t.began)
		d, err := lim.Take(context.Background(), "hot", 1)
		if err != nil {
			b.Fatal(err)
		}
		if d.Allowed {
			n++
		}
	}
	return n
}

func openSluice(b *testing.B, s *redisServer, o redisstore.Options) *rueidisstore.Store {
	b.Helper()
	store, err := peers.OpenRedis(s.Addr, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

func newHot(b *testing.B, store sluice.Store, l sluice.Limit) *sluice.Limiter {
	b.Helper()
	lim, err := sluice.New(store, "bench", l)
	if err != nil {
		b.Fatal(err)
	}
	return lim
}

// BenchmarkRedisDenied paces one key at ten times its limit from 64 goroutines,
// with a deny cache and without, and counts the calls that reach the server and
// what is admitted of what an exact limiter admits. Run it with -benchtime=1x.
//
// wrong counts verdicts that are: one goroutine asks the server before each
// take and after it. What the server would have allowed before and the cache
// denied is wrong, as nobody else spends.
func BenchmarkRedisDenied(b *testing.B) {
	perSecond := sluice.Per(hotQuota, time.Second)
	for _, c := range []struct {
		who    string
		cached bool
		limit  sluice.Limit
		lasts  time.Duration
	}{
		{"sluice.alone", false, perSecond, hotFor},
		{"sluice", false, perSecond, hotFor},
		{"deny-cache", true, perSecond, hotFor},
		{"deny-cache.fixed-window", true, perSecond.WithAlgorithm(sluice.FixedWindow{}), hotFor},
		{"deny-cache.sliding-log", true, perSecond.WithAlgorithm(sluice.SlidingLog{}), hotFor},
		{"deny-cache.minute", true, sluice.Per(100, time.Second), time.Minute},
	} {
		b.Run("who="+c.who, func(b *testing.B) {
			server := startRedis(b)
			l := c.limit
			store := sluice.Store(openSluice(b, server, redisstore.Options{NoCoalescing: c.who == "sluice.alone"}))
			if c.cached {
				store = wrapRemote(b, store, nil)
			}
			lim := newHot(b, store, l)
			ctx := context.Background()
			before, _ := server.scripts(b)
			takes := pace(b, 64, 10*int(l.Quota), c.lasts, func(int) (bool, error) {
				d, err := lim.Take(ctx, "hot", 1)
				return d.Allowed, err
			})
			after, _ := server.scripts(b)
			b.ReportMetric(0, "ns/op") // not shown
			b.ReportMetric(float64(after-before)/float64(len(takes)), "calls/decision")
			b.ReportMetric(100*float64(admitted(takes))/float64(exact(b, takes, l)), "%exact")
			b.ReportMetric(float64(wrongVerdicts(b, lim)), "wrong")
		})
	}
}

// wrongVerdicts takes of another key for a second, and counts denials of what
// the server would have allowed.
func wrongVerdicts(b *testing.B, lim *sluice.Limiter) (wrong int) {
	b.Helper()
	ctx := context.Background()
	for start := time.Now(); time.Since(start) < time.Second; {
		look, err := lim.Peek(ctx, "shadowed", 1) // is never answered from memory
		if err != nil {
			b.Fatal(err)
		}
		for range 10 {
			d, err := lim.Take(ctx, "shadowed", 1)
			if err != nil {
				b.Fatal(err)
			}
			if look.Allowed && !d.Allowed {
				wrong++
			}
			if d.Allowed {
				break // the look is out of date
			}
		}
	}
	return wrong
}

// BenchmarkRedisLeased paces one key at twice its limit from 8 nodes, each with
// connections of its own, and counts the calls that reach the server, what is
// admitted of what an exact log admits, and what is admitted over the limit in
// any window. Run it with -benchtime=1x.
func BenchmarkRedisLeased(b *testing.B) {
	const nodes = 8
	for _, c := range []struct {
		who    string
		leased bool
		limit  sluice.Limit
	}{
		{"sluice.sliding-log", false, sluice.Per(hotQuota, time.Second).WithAlgorithm(sluice.SlidingLog{})},
		{"leased.sliding-log", true, sluice.Per(hotQuota, time.Second).WithAlgorithm(sluice.SlidingLog{})},
		{"leased.sliding-histogram", true, sluice.Per(hotQuota, time.Second).WithAlgorithm(sluice.SlidingHistogram{})},
		{"leased.token-bucket", true, sluice.Per(hotQuota, time.Second)},
	} {
		b.Run("who="+c.who, func(b *testing.B) {
			server := startRedis(b)
			var lims [nodes]*sluice.Limiter
			for i := range lims {
				store := sluice.Store(openSluice(b, server, redisstore.Options{}))
				if c.leased {
					store = wrapRemote(b, store, func(*sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{}, true })
				}
				lims[i] = newHot(b, store, c.limit)
			}
			ctx := context.Background()
			before, _ := server.scripts(b)
			takes := pace(b, 8*nodes, 2*hotQuota, hotFor, func(caller int) (bool, error) {
				d, err := lims[caller%nodes].Take(ctx, "hot", 1)
				return d.Allowed, err
			})
			after, _ := server.scripts(b)
			b.ReportMetric(0, "ns/op") // not shown
			b.ReportMetric(float64(after-before)/float64(len(takes)), "calls/decision")
			b.ReportMetric(100-100*float64(admitted(takes))/float64(exact(b, takes, c.limit)), "%lost")
			if !testkit.Is[sluice.TokenBucket](c.limit) {
				b.ReportMetric(float64(over(takes, hotQuota, time.Second)), "over")
			}
		})
	}
}

// over returns by how much the takes exceed quota within some window: those
// that surely began after its start and ended before its end.
func over(takes []taken, quota int, window time.Duration) (most int) {
	var used []taken
	for _, t := range takes {
		if t.allowed {
			used = append(used, t)
		}
	}
	for _, first := range used {
		n := 0
		for _, t := range used {
			if t.began >= first.began && t.ended < first.began+window {
				n++
			}
		}
		most = max(most, n-quota)
	}
	return most
}
