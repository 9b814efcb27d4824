// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/remote"
)

// use is a unit that was used, at some instant between two.
type use struct{ began, ended time.Time }

// leaser is a node that leases, behind a network of its own. It may die: then
// what it has in hand is lost, and another takes its place.
type leaser struct {
	proxy *redistest.Proxy
	store Store
	terms sluice.LeaseTerms
	plan  *sluice.Plan
	node  atomic.Pointer[remote.Store]

	mu     sync.Mutex
	uses   []use
	taken  int
	failed int
}

func (l *leaser) begin(t *testing.T) {
	t.Helper()
	l.node.Store(wrapped(t, l.store, remote.Options{Policy: sluice.FailClosed, Timeout: time.Minute, Lease: func(*sluice.Plan) (sluice.LeaseTerms, bool) { return l.terms, true }}))
}

// press takes units one by one until ctx ends.
func (l *leaser) press(ctx context.Context) {
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		u := use{began: time.Now()}
		d, err := l.node.Load().Take(context.WithoutCancel(ctx), sluice.Request{Charge: sluice.Charge{Plan: l.plan, Key: "hot", Cost: 1}})
		u.ended = time.Now()
		l.mu.Lock()
		l.taken++
		switch {
		case err != nil:
			l.failed++
		case d.Allowed:
			l.uses = append(l.uses, u)
		}
		l.mu.Unlock()
	}
}

// leases (invariant 20): what nodes use of units that they leased from a real server
// stays within the bound of the limit in any span, whatever the network loses, delays
// or cuts, while the server hangs and nodes die.
func (c *Client) leases(t *testing.T) {
	const nodes, each, rounds = 4, 3, 15
	windows := testkit.Steps(4, 8)
	for i, text := range []string{"200/500ms sliding-log", "400/s burst 100", "200/500ms sliding-histogram precision 10", "200/500ms fixed-window"} {
		t.Run(text, func(t *testing.T) {
			if i >= 2 {
				testkit.Long(t)
			}
			t.Parallel()
			server := redistest.Start(t, redistest.Redis(t))
			limit := sluice.MustParseLimit(text)
			plan := testkit.Compile(t, "leased", limit)
			var all []*leaser
			for range nodes {
				all = append(all, &leaser{proxy: redistest.StartProxy(t, server.Addr), plan: plan, terms: sluice.LeaseTerms{TTL: 40 * time.Millisecond, Units: 8}})
			}
			for round := 0; ; round++ { // more than one where the machine has other work
				if round%4 == 0 {
					for _, l := range all { // with more time for a call
						l.store = testkit.Closed(t, c.Open(t, Target{URL: "redis://" + l.proxy.Addr}, redisstore.Options{Timeout: 100 * time.Millisecond << (round / 4)}))
						l.begin(t)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(windows)*limit.Window)
				var group sync.WaitGroup
				for _, l := range all {
					for range each {
						group.Go(func() { l.press(ctx) })
					}
				}
				disturb(ctx, t, server, all)
				group.Wait()
				cancel()
				if checkUses(t, limit, all, windows) {
					return
				}
				if round == rounds {
					t.Fatal("too calm, too few or nothing leased: this shows nothing")
				}
			}
		})
	}
}

// disturb does something to one node or to the server every few milliseconds.
func disturb(ctx context.Context, t *testing.T, server *redistest.Server, all []*leaser) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 20))
	for ctx.Err() == nil {
		pause(time.Duration(1+rnd.IntN(60)) * time.Millisecond)
		l := all[rnd.IntN(len(all))]
		switch rnd.IntN(8) {
		case 0:
			l.begin(t) // the node before it is dead
		case 1:
			server.Stop(t)
			pause(time.Duration(1+rnd.IntN(80)) * time.Millisecond)
			server.Continue(t)
		case 2:
			l.proxy.Set(redistest.Delaying)
		case 3:
			l.proxy.Set(redistest.Trickling)
		case 4:
			l.proxy.Set(redistest.Swallowing)
		case 5:
			l.proxy.Set(redistest.Cutting)
		default:
			l.proxy.Set(redistest.Faithful)
		}
	}
	for _, l := range all {
		l.proxy.Set(redistest.Faithful)
	}
}

// checkUses holds the uses against the limit's bound. A unit was used within a
// span for sure if its take began and ended in it. It reports whether there was enough
// to show that, in so many windows.
func checkUses(t *testing.T, limit sluice.Limit, all []*leaser, windows int) bool {
	t.Helper()
	var uses []use
	var taken, failed int
	var asked uint64
	for _, l := range all {
		uses = append(uses, l.uses...)
		taken, failed = taken+l.taken, failed+l.failed
		asked += l.node.Load().Stats().Leases.Asked // of the living
	}
	slices.SortFunc(uses, func(a, b use) int { return a.began.Compare(b.began) })
	used := make(map[time.Duration]bool) // windows
	for _, u := range uses {
		used[u.began.Sub(uses[0].began)/limit.Window] = true
	}
	worst := int64(0)
	for _, d := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, limit.Window / 2, limit.Window, 2 * limit.Window} {
		bound := algo.Bound(limit, d)
		for i, first := range uses {
			end, n := first.began.Add(d), int64(0)
			for _, u := range uses[i:] {
				if !u.began.Before(end) {
					break
				}
				if u.ended.Before(end) {
					n++
				}
			}
			if n > bound {
				t.Fatalf("%d units used in %v, want at most %d", n, d, bound)
			}
			if d == limit.Window {
				worst = max(worst, n)
			}
		}
	}
	t.Logf("%d takes, %d failed, %d allowed in %d windows; at most %d in one, bound %d; the nodes alive asked %d times",
		taken, failed, len(uses), len(used), worst, algo.Bound(limit, limit.Window), asked)
	return failed > 0 && worst >= limit.Quota/2 && int(asked) < taken && len(used) >= windows
}
