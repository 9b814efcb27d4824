// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// testRequests sends every operation, over one and several limits and keys, to the store, one
// after the other.
func testRequests(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		c, rnd := newChecker(h, clock), newSource(seed, 3, plans(t))
		for range h.Steps {
			req := rnd.request()
			rnd.keep(req, c.take(t, req))
			clock.move(rnd.Rand)
		}
	})
}

// testBatches sends requests to the store in batches, some of them invalid.
func testBatches(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		c, rnd := newChecker(h, clock), newSource(seed, 3, plans(t))
		for done := 0; done < h.Steps; {
			done += c.drawBatch(t, rnd, rnd.IntN(40)) + 1
			clock.move(rnd.Rand)
		}
	})
}

// drawBatch sends a batch of n requests to the store, some of them invalid.
func (c *checker) drawBatch(t *testing.T, rnd *source, n int) int {
	t.Helper()
	reqs := make([]sluice.Request, n)
	for i := range reqs {
		reqs[i] = rnd.request()
		if rnd.IntN(20) == 0 {
			reqs[i].Cost = -1
		}
	}
	for i, r := range c.takeAll(t, reqs) {
		if r.Err == nil {
			rnd.keep(reqs[i], r.Decision)
		}
	}
	return n
}

// takeAll decides a batch and fails the test if the store and the model do not agree.
func (c *checker) takeAll(t *testing.T, reqs []sluice.Request) []sluice.Result {
	t.Helper()
	for i := range reqs {
		reqs[i].Outcomes = new(make(sluice.Outcomes, reqs[i].Limits()))
	}
	out := make([]sluice.Result, len(reqs))
	c.asked = time.Now()
	if err := sluice.TakeBatch(t.Context(), c.h.Store, reqs, out); err != nil {
		t.Fatalf("batch of %d: %v", len(reqs), err)
	}
	for i, req := range reqs {
		if want := req.Validate(); want != nil {
			wantRefused(t, describe(req), out[i].Err, want)
			continue
		}
		if out[i].Err != nil {
			t.Fatalf("%s, %d of a batch: got error %v", describe(req), i+1, out[i].Err)
		}
		c.check(t, req, out[i].Decision)
	}
	return out
}

// testChangedLimits changes limits back and forth while their keys live.
func testChangedLimits(t *testing.T, b *bench) { changing(t, b, changedSeries()) }

// changedSeries returns series of texts of limits that replace each other.
func changedSeries() [][]string {
	return [][]string{
		{"x: 10/s", "x: 30/s", "x: 7/s burst 3", "x: 10/s initial 2", "x: 20/s count-denied"},
		{"x: 20/s sliding-log", "x: 5/s sliding-log", "x: 20/s sliding-log count-denied"},
		{"x: 20/s fixed-window", "x: 40/s fixed-window", "x: 20/s fixed-window anchor first", "x: 30/s fixed-window initial 5"},
		{"x: 20/s sliding-counter", "x: 20/s sliding-counter strict", "x: 20/s sliding-counter sub-windows 5", "x: 30/s sliding-counter pre-filled", "x: 20/s sliding-counter sub-windows 5 whole"},
		{"x: 200/s sliding-histogram precision 3", "x: 100/s sliding-histogram precision 5", "x: 50/s sliding-log", "x: 60/s sliding-histogram precision 3 count-denied"},
		{"x: 10/s", "x: 10/s sliding-log", "x: 10/s fixed-window", "x: 10/s sliding-counter sub-windows 4", "x: 10/s leaky-bucket burst 5", "x: 10/s interval-refill", "x: 10/s burst 5 warm-up 3s"},
		{"x: 10/s burst 5 warm-up 3s", "x: 20/2s burst 2 warm-up 3s debt 4", "x: 10/s burst 5", "x: 20/s burst 3 warm-up 3s"},
		{"x: 3/s", "x: 2/s", "x: 10/s sliding-log", "x: 4/s fixed-window"},
	}
}

// testChangedBlocks changes blocks, and limits that become blocks and back.
func testChangedBlocks(t *testing.T, b *bench) {
	changing(t, b, [][]string{
		{"x: 3/s block 2s", "x: 2/s block 5s", "x: 5/min block 1s", "x: 4/100ms block 300ms"},
		{"x: 3/s block 1s", "x: 10/s", "x: 10/s sliding-log", "x: 20/s sliding-counter sub-windows 4", "x: 2/min block 500ms"},
	})
}

// testChangedWithin sends requests with two limits of one name, on different keys. Neither
// limit has been used before.
func testChangedWithin(t *testing.T, b *bench) {
	h, clock := b.store(t)
	c := newChecker(h, clock)
	for _, op := range []sluice.Op{sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpReserve} {
		for _, texts := range [][2]string{{"x: 2/s", "x: 3/s"}, {"x: 3/s", "x: 2/s"}, {"x: 2/s", "x: 3/s initial 1"}} {
			scope := fmt.Sprint("changing within ", op, texts)
			one, other := testkit.Plan(t, scope, texts[0]), testkit.Plan(t, scope, texts[1])
			charges := []sluice.Charge{{Plan: one, Key: "a", Cost: 1}, {Plan: other, Key: "b", Cost: 1}, {Plan: one, Key: "c", Cost: 1}}
			c.take(t, sluice.Request{Op: op, Charge: charges[0], More: charges[1:]})
			for _, charge := range charges { // its debt drains at the rate of the faster limit
				for _, charge.Plan = range []*sluice.Plan{one, other} {
					clock.add(1000)
					c.take(t, sluice.Request{Op: sluice.OpPeek, Charge: charge})
				}
			}
		}
	}
}

// testChangedBatches changes limits within batches. First a second limit of one name is used
// between two requests for a key.
func testChangedBatches(t *testing.T, b *bench) {
	h, clock := b.store(t)
	c, one, other := newChecker(h, clock), testkit.Plan(t, "met in a batch", "x: 2/s"), testkit.Plan(t, "met in a batch", "x: 3/s")
	key := sluice.Charge{Plan: one, Key: "a", Cost: 1}
	c.takeAll(t, []sluice.Request{
		{Op: sluice.OpPeek, Charge: key},
		{Op: sluice.OpTake, Charge: sluice.Charge{Plan: other, Key: "b", Cost: 1}},
		{Op: sluice.OpTake, Charge: key},
	})
	clock.add(1000)
	key.Plan = other
	c.take(t, sluice.Request{Op: sluice.OpPeek, Charge: key})

	series := changedSeries()
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		c, rnd := newChecker(h, clock), newSource(seed, 4, nil)
		for done, n := 0, 0; done < h.Steps; n++ {
			texts := series[rnd.IntN(len(series))]
			rnd.plans, rnd.receipts = nil, nil
			for _, text := range texts {
				rnd.plans = append(rnd.plans, testkit.Plan(t, fmt.Sprint("changed batch ", n), text))
			}
			for range 3 {
				done += c.drawBatch(t, rnd, 1+rnd.IntN(12))
				clock.creep(rnd.Rand)
			}
		}
	})
}

// changing changes the limits of each series.
func changing(t *testing.T, b *bench, series [][]string) {
	t.Helper()
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		all := make([][]*sluice.Plan, len(series))
		for i, texts := range series {
			for _, text := range texts {
				if !testkit.Is[sluice.Block](sluice.MustParseLimit(text)) { // a plan needs another limit, too
					all[i] = append(all[i], testkit.Plan(t, fmt.Sprint("changing ", i), text))
				}
				all[i] = append(all[i], testkit.Plan(t, fmt.Sprint("changing one of two ", i), text, "25/s sliding-log"))
			}
		}
		c, rnd := newChecker(h, clock), newSource(seed, 4, nil)
		at := 0
		for n := range h.Steps {
			if n%500 == 0 { // long enough for states of one limit to be found by the next
				at = rnd.IntN(len(all))
			}
			if n%500 == 0 || rnd.IntN(10) == 0 { // the plans to draw from for a while
				of := all[at]
				rnd.plans = []*sluice.Plan{of[rnd.IntN(len(of))], of[rnd.IntN(len(of))]}
			}
			req := rnd.request()
			rnd.keep(req, c.take(t, req))
			clock.creep(rnd.Rand)
		}
	})
}
