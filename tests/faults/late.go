// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/storetest"
)

// stack is a store behind a network, wrapped as programs wrap it.
type stack struct {
	*remote.Store
	redis Store
}

// stacks are the ways to wrap a store.
var stacks = []string{"denials", "leases, denials"}

// stack wraps a store at an address. It ends with the test.
func (c *Client) stack(t *testing.T, names, addr, prefix string, opts remote.Options) *stack {
	t.Helper()
	redis := c.Open(t, Target{URL: "redis://" + addr, Patient: true}, redisstore.Options{Prefix: prefix, Timeout: time.Minute})
	s := &stack{redis: redis}
	if strings.Contains(names, "leases") {
		terms := sluice.LeaseTerms{TTL: 10 * time.Second, Units: 4}
		opts.Lease = func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return terms, p.Scope() == "leased" }
	}
	opts.Local = memstore.New(memstore.Options{})
	s.Store = wrap(t, redis, opts)
	testkit.Closed(t, redis)
	return testkit.Closed(t, s)
}

// quiet waits until no answer is to come, and gives back what is in hand.
func (s *stack) quiet(t *testing.T) {
	t.Helper()
	testkit.Until(t, "all answers", func() bool { return s.Stats().InFlight == 0 && s.Err() == nil })
	if err := s.Return(t.Context()); err != nil {
		t.Error(err)
	}
}

// conformance shows that behind a network that cuts and delays what it passes on
// every decision is the store's, however it is wrapped. A memory of denials says
// a little less than is left: see denyCache.
func (c *Client) conformance(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	storetest.Test(t, func(t *testing.T, _ func() time.Time) storetest.Harness {
		proxy := redistest.StartProxy(t, server.Addr)
		s := c.stack(t, "leases", proxy.Addr, t.Name(), remote.Options{MaxDenial: -1, Policy: sluice.FailClosed, Timeout: time.Minute, MaxInFlight: 1 << 20})
		proxy.Set(redistest.Jittering)
		return storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: 60}
	})
}

// lateAnswers shows that a request refused because the answer comes too late,
// or leaves, has spent nothing once it has come, by any operation.
func (c *Client) lateAnswers(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	one := func(p *sluice.Plan, op sluice.Op, cost int64) sluice.Request {
		return sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Key: "k", Cost: cost}}
	}
	for _, names := range stacks {
		for _, manner := range []redistest.Manner{redistest.Swallowing, redistest.Trickling} {
			for _, leaves := range []bool{false, true} {
				name := fmt.Sprintf("%s, manner %d, callers leave %v", names, manner, leaves)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					proxy := redistest.StartProxy(t, server.Addr)
					opts := remote.Options{Policy: sluice.FailClosed, Failures: 1000}
					if leaves {
						opts.Timeout = time.Minute // not both at once
					}
					s := c.stack(t, names, proxy.Addr, name, opts)
					leased, log, other := testkit.Plan(t, "leased", "100/h sliding-log"), testkit.Plan(t, "log", "100/h sliding-log"), testkit.Plan(t, "other", "50/h fixed-window anchor first")
					two := one(log, sluice.OpTake, 3)
					two.More = []sluice.Charge{{Plan: other, Key: "k", Cost: 2}}
					reserve := one(log, sluice.OpReserve, 4)
					reserve.MaxWait = time.Minute
					batch := []sluice.Request{one(log, sluice.OpTake, 1), one(other, sluice.OpTake, 2), one(leased, sluice.OpTake, 1)}
					slot := sluice.SlotRequest{Op: sluice.SlotAcquire, Scope: "slots", Key: "k", Owner: "ann", Cost: 1, Limit: sluice.SlotLimit{Name: "a", Cap: 2, TTL: time.Minute}}
					// The scripts are there by then: text trickles for a minute.
					for _, req := range append([]sluice.Request{two, reserve, one(log, sluice.OpTakeUpTo, 7)}, batch...) {
						if _, err := s.redis.Take(t.Context(), req); err != nil {
							t.Fatal(err)
						}
						req.Op, req.MaxWait, req.Cost = sluice.OpReset, 0, 0
						if _, err := s.redis.Take(t.Context(), req); err != nil {
							t.Fatal(err)
						}
					}
					proxy.Set(manner)
					var group sync.WaitGroup
					ask := func(do func(context.Context) error) {
						group.Go(func() {
							ctx, cancel := context.WithCancel(context.Background())
							defer cancel()
							if leaves {
								timer := time.AfterFunc(10*time.Millisecond, cancel)
								defer timer.Stop()
							}
							err := do(ctx)
							if _, unavailable := errors.AsType[*remote.UnavailableError](err); unavailable == leaves || errors.Is(err, context.Canceled) != leaves {
								t.Errorf("got %v", err)
							}
						})
					}
					for _, req := range []sluice.Request{one(log, sluice.OpTake, 5), one(log, sluice.OpTakeUpTo, 7), one(leased, sluice.OpTake, 1), two, reserve} {
						ask(func(ctx context.Context) error {
							_, err := s.Take(ctx, req)
							return err
						})
					}
					ask(func(ctx context.Context) error {
						out := make([]sluice.Result, len(batch))
						if err := s.TakeBatch(ctx, batch, out); err != nil {
							return err
						}
						return out[0].Err
					})
					ask(func(ctx context.Context) error {
						_, err := s.Slot(ctx, slot)
						return err
					})
					group.Wait()
					proxy.Set(redistest.Faithful) // after they have left
					s.quiet(t)
					for _, p := range []*sluice.Plan{leased, log, other} {
						if got := testkit.Spent(t, s.redis, p, "k"); got != 0 {
							t.Errorf("%s: %d units are spent, want none; %+v", p.Scope(), got, s.Stats())
						}
					}
					slot.Op, slot.Owner = sluice.SlotPeek, ""
					testkit.Until(t, "the slot to be released", func() bool {
						d, err := s.redis.Slot(t.Context(), slot)
						return err == nil && d.Held == 0
					})
					if st := s.Stats(); st.GivenBack == 0 || st.NotGivenBack > 0 {
						t.Errorf("%+v", st)
					}
				})
			}
		}
	}
}

// spentIsReported shows that while a network is now slow and now not, callers leave and
// the store is marked down and taken back, the server counts the units of which
// callers were informed that they have them, and no others. Where connections break
// it may count what was on its way.
func (c *Client) spentIsReported(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	slow := []redistest.Manner{redistest.Faithful, redistest.Lagging, redistest.Jittering, redistest.Trickling}
	for _, names := range stacks {
		for _, network := range []struct {
			name    string
			manners []redistest.Manner
			breaks  bool
		}{{"slow", slow, false}, {"breaks", append(slow[:3:3], redistest.Cutting), true}} {
			t.Run(names+", "+network.name, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.StartProxy(t, server.Addr)
				s := c.stack(t, names, proxy.Addr, names+network.name, remote.Options{Policy: sluice.FailClosed})
				p := newPress(t, s)
				p.start(t)
				for n := 0; n < 12*times(t) || p.calm() && n < 300; n++ {
					proxy.Set(network.manners[n%4])
					pause(200 * time.Millisecond)
				}
				proxy.Set(redistest.Faithful)
				p.halt()
				s.quiet(t)
				st := s.Stats()
				for i, plan := range p.plans {
					got, reported, most := testkit.Spent(t, s.redis, plan, "k"), p.reported[i].Load(), p.reported[i].Load()
					if network.breaks {
						most += p.unreported[i].Load()
					}
					if got < reported || got > most {
						t.Errorf("%s: the server counts %d units, want %d to %d; %+v", plan.Scope(), got, reported, most, st)
					}
				}
				t.Logf("%d and %d units reported, %d calls refused, %d left; %+v", p.reported[0].Load(), p.reported[1].Load(), p.refused.Load(), p.left.Load(), st)
				if p.calm() {
					t.Error("too calm: this shows nothing")
				}
			})
		}
	}
}

// press is callers that take and leave as they like.
type press struct {
	store                *stack
	plans                [2]*sluice.Plan
	reported, unreported [2]atomic.Int64 // units
	refused, left        atomic.Int64    // calls
	stop                 chan struct{}
	group                sync.WaitGroup
}

func newPress(t *testing.T, s *stack) *press {
	t.Helper()
	return &press{store: s, stop: make(chan struct{}), plans: [2]*sluice.Plan{
		testkit.Plan(t, "leased", fmt.Sprintf("%d/h fixed-window anchor first", plenty)),
		testkit.Plan(t, "other", fmt.Sprintf("%d/366day sliding-counter", plenty)),
	}}
}

func (p *press) start(t *testing.T) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for worker := range uint64(workers) {
		rnd := rand.New(rand.NewPCG(worker, seed))
		p.group.Go(func() {
			for p.take(t, rnd) {
				pause(time.Millisecond)
			}
		})
	}
}

// calm reports whether too little has happened to show anything.
func (p *press) calm() bool {
	return p.refused.Load() == 0 || p.left.Load() == 0 || p.store.Stats().GivenBack == 0 || p.reported[0].Load() == 0 || p.reported[1].Load() == 0
}

func (p *press) halt() {
	close(p.stop)
	p.group.Wait()
}

// take reports whether there is more to do.
func (p *press) take(t *testing.T, rnd *rand.Rand) bool {
	t.Helper()
	select {
	case <-p.stop:
		return false
	default:
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(time.Duration(rnd.IntN(200))*time.Millisecond, cancel).Stop()
	req := sluice.Request{Charge: sluice.Charge{Plan: p.plans[rnd.IntN(2)], Key: "k", Cost: 1 + rnd.Int64N(3)}}
	switch rnd.IntN(4) {
	case 0:
		req.Plan, req.More = p.plans[0], []sluice.Charge{{Plan: p.plans[1], Key: "k", Cost: 2}}
	case 1:
		req.Op = sluice.OpTakeUpTo
	}
	d, err := p.store.Take(ctx, req)
	count := &p.reported
	switch _, unavailable := errors.AsType[*remote.UnavailableError](err); {
	case unavailable:
		p.refused.Add(1)
		count = &p.unreported
	case errors.Is(err, context.Canceled):
		p.left.Add(1)
		count = &p.unreported
	case err != nil || !d.Allowed || d.Degraded:
		t.Errorf("%+v, %v", d, err)
	}
	for i, plan := range p.plans {
		if req.Plan == plan {
			count[i].Add(req.Cost)
		} else if len(req.More) > 0 {
			count[i].Add(2)
		}
	}
	return true
}
