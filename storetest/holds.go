// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// testHolds sends holds, settles, extensions and repetitions of them to the store, among all
// other operations.
func testHolds(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		skipWithoutHolds(t, h)
		c, rnd := newChecker(h, clock), newSource(seed, 3, heldPlans(t))
		for range h.Steps {
			req := rnd.held()
			rnd.keep(req, c.take(t, req))
			clock.move(rnd.Rand)
			if rnd.IntN(50) == 0 {
				clock.Advance(time.Duration(rnd.IntN(120)) * time.Second)
			}
		}
	})
}

// testHoldBatches sends such requests to the store in batches, and changes limits meanwhile.
func testHoldBatches(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		skipWithoutHolds(t, h)
		var list []*sluice.Plan
		for i, series := range changedSeries() {
			for _, text := range series {
				list = append(list, testkit.Plan(t, fmt.Sprint("changed ", i), text))
			}
		}
		c, rnd := newChecker(h, clock), newSource(seed, 1, list)
		for done := 0; done < h.Steps; {
			reqs := make([]sluice.Request, 1+rnd.IntN(10))
			for i := range reqs {
				reqs[i] = rnd.held()
			}
			for i, r := range c.takeAll(t, reqs) {
				rnd.keep(reqs[i], r.Decision)
			}
			done += len(reqs)
			clock.move(rnd.Rand)
			if rnd.IntN(20) == 0 {
				clock.Advance(time.Duration(rnd.IntN(120)) * time.Second)
			}
		}
	})
}

// heldPlans returns plans with windows longer and shorter than the holds.
func heldPlans(t *testing.T) (list []*sluice.Plan) {
	t.Helper()
	for i, text := range []string{
		"10/min fixed-window debt 20", "10/s burst 5 debt 30", "20/min sliding-log debt 20", "30/min sliding-counter debt 50",
		"300/min sliding-histogram precision 3", "50/day calendar Asia/Seoul", "10/min burst 8 interval-refill", "9/min leaky-bucket burst 5 nodelay",
		"20/min burst 9 credit 9 credit-for 10s", "30/min sliding-counter sub-windows 6", "10/min initial 2", "5/min sliding-log count-denied",
	} {
		list = append(list, testkit.Plan(t, fmt.Sprint("held ", i), text))
	}
	return append(list, testkit.Plan(t, "held together", "20/min debt 20", "30/h sliding-log debt 9", "a: 9/min fixed-window debt 9"))
}

// held returns a valid request, mostly one with a hold.
func (s *source) held() sluice.Request {
	req := s.request()
	if len(req.More) > 1 || s.IntN(4) == 0 {
		return req
	}
	hold := &sluice.Hold{ID: fmt.Sprint("id ", s.IntN(8)), TTL: time.Second + time.Duration(s.IntN(90_000))*time.Millisecond}
	held := sluice.Request{Charge: s.charge(), More: req.More, Hold: hold}
	held.Cost = min(held.Cost, 5)
	switch s.IntN(10) {
	case 0:
		held.Op = sluice.OpExtend
	case 1:
		held.Op = sluice.OpPeek
	case 2, 3, 4, 5:
		held.Op, hold.Retry = sluice.OpSettle, s.IntN(3) == 0
		held.Cost = s.Int64N(2*held.Cost + 2)
	default:
		hold.Settled = s.IntN(8) == 0
	}
	if held.Validate() != nil {
		return req
	}
	return held
}

func skipWithoutHolds(t *testing.T, h Harness) {
	t.Helper()
	req := sluice.Request{Charge: sluice.Charge{Plan: testkit.Plan(t, "holds at all", "10/min"), Cost: 1}, Hold: &sluice.Hold{ID: "a", TTL: time.Minute}}
	if _, err := h.Store.Take(t.Context(), req); errors.Is(err, sluice.ErrNoHolds) {
		t.Skip("the store keeps no holds")
	}
}

// testHoldsConcurrent opens and settles holds of one key from many goroutines, each request
// several times, and checks that the used units of each id are charged once.
func testHoldsConcurrent(t *testing.T, b *bench) {
	h, _ := b.store(t)
	skipWithoutHolds(t, h)
	const callers, each, quota = 8, 20, 1_000_000
	plan := testkit.Plan(t, "held by many", fmt.Sprintf("%d/365d fixed-window", quota))
	ask := func(op sluice.Op, cost int64, id string, retry bool) sluice.Decision {
		d, err := h.Store.Take(t.Context(), sluice.Request{Op: op, Charge: sluice.Charge{Plan: plan, Key: "k", Cost: cost}, Hold: &sluice.Hold{ID: id, TTL: time.Hour, Retry: retry}})
		if err != nil {
			t.Error(err)
		}
		return d
	}
	var used atomic.Int64
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each {
				id := fmt.Sprint(c/2, " ", i) // two callers have the same ids
				if d := ask(sluice.OpTake, 10, id, false); !d.Allowed || d.Spent != 10 {
					t.Errorf("hold: got %+v", d)
				}
				if d := ask(sluice.OpSettle, int64(i), id, c%2 == 1); d.Spent != int64(i) || d.Hold != sluice.HoldSettled {
					t.Errorf("settle: got %+v", d)
				}
				if c%2 == 0 {
					used.Add(int64(i))
				}
			}
		})
	}
	group.Wait()
	d, err := h.Store.Take(t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: plan, Key: "k"}})
	if want := quota - used.Load(); err != nil || d.Remaining != want {
		t.Errorf("%d units are left, %v, want %d", d.Remaining, err, want)
	}
}
