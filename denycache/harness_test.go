// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/denycache"
	"github.com/sluicegate/sluice/memstore"
)

// hand is a clock that stands where the test puts it.
type hand struct{ nanos atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.nanos.Store(1_790_000_000_123_456_000)
	return h
}

func (h *hand) now() time.Time          { return time.Unix(0, h.nanos.Load()) }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

// counted is a store that counts what it is asked.
type counted struct {
	sluice.Store
	asked atomic.Int64
}

func (c *counted) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	c.asked.Add(1)
	return c.Store.Take(ctx, req)
}

func (c *counted) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	c.asked.Add(int64(len(reqs)))
	return c.Store.TakeBatch(ctx, reqs, out)
}

// world is a cache in front of a store, both on one clock.
type world struct {
	clock *hand
	store *counted
	cache *denycache.Store
}

func newWorld(opts denycache.Options) *world {
	w := &world{clock: newHand()}
	w.store = &counted{Store: memstore.New(memstore.Options{MaxKeys: 10_000, Now: w.clock.now})}
	opts.Now = w.clock.now
	w.cache = denycache.Wrap(w.store, opts)
	return w
}

func plan(t testing.TB, scope string, texts ...string) *sluice.Plan {
	t.Helper()
	var limits []sluice.Limit
	for _, text := range texts {
		l, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	p, err := sluice.Compile(scope, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func charge(p *sluice.Plan, key string, cost int64) sluice.Request {
	return sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: cost}}
}

// fataler is a test, of package testing or rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func take(t fataler, s sluice.Store, req sluice.Request) sluice.Decision {
	t.Helper()
	d, err := s.Take(context.Background(), req)
	if err != nil {
		t.Fatalf("%v %d of %q: %v", req.Op, req.Cost, req.Key, err)
	}
	return d
}
