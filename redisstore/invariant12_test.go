// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// steppable are limits of every algorithm.
var steppable = []string{
	"60/min", "60/min burst 7", "60/min burst 90 interval-refill", "60/min leaky-bucket burst 9 nodelay",
	"60/min fixed-window", "60/min fixed-window anchor first", "60/day calendar Asia/Seoul",
	"60/min sliding-log", "60/min sliding-counter", "60/min sliding-counter conservative", "60/min sliding-histogram precision 3",
}

// steps are two nodes on one real server whose clock the test sets.
type steps struct {
	now   atomic.Int64
	nodes [2]*Store
	rnd   *rand.Rand
}

func newSteps(t *testing.T) *steps {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	server := redistest.Shared(t, redistest.Redis(t))
	w := &steps{rnd: rand.New(rand.NewPCG(seed, 12))}
	for i := range w.nodes {
		s, err := New(Over(server.Client(t)), Options{Timeout: testkit.Ceiling})
		if err != nil {
			t.Fatal(err)
		}
		s.inject = w.now.Load
		w.nodes[i] = s
		testkit.Closed(t, s)
	}
	return w
}

// upTo takes all remaining units, from either node.
func (w *steps) upTo(t *testing.T, p *sluice.Plan, key string) int64 {
	t.Helper()
	node := w.nodes[w.rnd.IntN(len(w.nodes))]
	d, err := node.Take(t.Context(), sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: p, Key: key, Cost: sluice.MaxQuota}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Spent
}

// TestInvariant12StepsOfTheServersClock: on a real server, a clock that steps
// back grants nothing, however often, and one that jumps ahead by d then grants once, and no
// more than the limit grants in d.
func TestInvariant12StepsOfTheServersClock(t *testing.T) {
	w := newSteps(t)
	for _, text := range steppable {
		t.Run(text, func(t *testing.T) {
			plan := testkit.Plan(t, text, text)
			limit := plan.Term(0).Limit
			window := limit.Window.Microseconds()
			if testkit.Fixed(limit).Calendar != sluice.NoCalendar {
				window = 24 * time.Hour.Microseconds()
			}
			for n := range testkit.Steps(20, 80) {
				key := fmt.Sprint(n)
				start := int64(1_790_000_000_000_000) + w.rnd.Int64N(window)
				w.now.Store(start)
				if got := w.upTo(t, plan, key); got != plan.Term(0).Full {
					t.Fatalf("a new key grants %d, want %d", got, plan.Term(0).Full)
				}
				from := start
				for range 8 {
					from -= 1 + w.step(window)
					w.now.Store(from)
					if got := w.upTo(t, plan, key); got != 0 {
						t.Fatalf("spent at %d, but %d µs before %d are there", start, start-w.now.Load(), got)
					}
				}
				jump := 1 + 3*w.step(window)
				w.now.Store(from + jump)
				most := min(plan.Term(0).Full, algo.Bound(limit, time.Duration(jump)*time.Microsecond))
				if term := plan.Term(0); term.Burst > 0 && term.Refill == sluice.Continuous {
					most = min(most, jump*limit.Quota/window)
				}
				if got := w.upTo(t, plan, key); got > most {
					t.Fatalf("%d µs later %d are there, want at most %d", jump, got, most)
				}
				if got := w.upTo(t, plan, key); got != 0 {
					t.Fatalf("at one instant %d are there twice", got)
				}
			}
		})
	}
}

// step draws how far a clock steps: any magnitude up to a window.
func (w *steps) step(window int64) int64 {
	most := int64(1)
	for range w.rnd.IntN(40) {
		most *= 2
	}
	return w.rnd.Int64N(min(most, window) + 1)
}

// TestInvariant12NodesWhoseClocksDiffer: nodes whose clocks are hours apart share one budget
// by the server's time: together they admit what the limit grants, on a key that both use at
// once.
func TestInvariant12NodesWhoseClocksDiffer(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, text := range []string{"300/day", "300/day sliding-log", "300/day fixed-window anchor first", "300/366day sliding-counter", "300/year calendar Asia/Seoul"} {
		t.Run(text, func(t *testing.T) {
			var admitted atomic.Int64
			var group sync.WaitGroup
			for _, off := range []time.Duration{0, time.Hour, -time.Hour, 400 * 24 * time.Hour} {
				s, err := New(Over(server.Client(t)), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
				if err != nil {
					t.Fatal(err)
				}
				testkit.Closed(t, s)
				s.clock = func() time.Time { return time.Now().Add(off) }
				plan := testkit.Plan(t, text, text)
				for range 4 {
					group.Go(func() {
						for range 50 {
							d, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}})
							if err != nil {
								t.Error(err)
								return
							}
							if d.Allowed {
								admitted.Add(1)
							}
						}
					})
				}
			}
			group.Wait()
			if got := admitted.Load(); got != 300 {
				t.Errorf("%d of 800 takes admitted, want 300", got)
			}
		})
	}
}
