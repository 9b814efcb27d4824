// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

const callers = 64

// together runs call in as many goroutines as there are callers.
func together(t *testing.T, call func(caller uint64)) {
	t.Helper()
	var wg sync.WaitGroup
	for caller := range uint64(callers) {
		wg.Go(func() { call(caller) })
	}
	wg.Wait()
}

// slow holds limits of every algorithm under which no unit is refilled while a test runs.
var slow = []string{
	"1000/365d",
	"100/365d interval-refill burst 150",
	"5/365d leaky-bucket burst 10 nodelay debt 0",
	"1000/365d fixed-window anchor first",
	"1000/365d sliding-log",
	"1000/365d sliding-counter",
	"1000/365d sliding-counter sub-windows 5 conservative",
	"1000/365d sliding-histogram precision 4",
}

// testConcurrent has many callers take units of one key, and checks that exactly the quota is
// admitted.
func testConcurrent(t *testing.T, b *bench) {
	for i, text := range slow {
		t.Run(text, func(t *testing.T) {
			h, _ := b.store(t)
			plan := testkit.Plan(t, fmt.Sprint("slow ", i), text)
			var spent atomic.Int64
			together(t, func(caller uint64) {
				rnd := rand.New(rand.NewPCG(caller, 1))
				for denied := 0; denied < 3; {
					req := sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}}
					switch rnd.IntN(4) {
					case 0:
						req.Op, req.Cost = sluice.OpTakeUpTo, 3
					case 1:
						req.Op = sluice.OpPeek
					}
					d, err := h.Store.Take(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					spent.Add(d.Spent)
					if !d.Allowed {
						denied++
					}
				}
			})
			if got, want := spent.Load(), plan.Term(0).Full; got != want {
				t.Errorf("got %d units admitted, want %d", got, want)
			}
		})
	}
}

// testConcurrentKeys mixes takes over several keys, in random order, with takes of one key,
// and checks that exactly the quota of each key is spent.
func testConcurrentKeys(t *testing.T, b *bench) {
	h, _ := b.store(t)
	plan := testkit.Plan(t, "pairs", "1000/365d sliding-log", "3000/365d")
	const keys = 8
	passes := min(max(h.Steps/100, 8), 40)
	var spent [keys]atomic.Int64
	together(t, func(caller uint64) {
		rnd := rand.New(rand.NewPCG(caller, 2))
		for denied := 0; denied < passes*keys; {
			k := rnd.Perm(keys)
			n := 1 + rnd.IntN(3)
			req := sluice.Request{Charge: sluice.Charge{Plan: plan, Key: strconv.Itoa(k[0]), Cost: 1 + rnd.Int64N(3)}}
			for _, more := range k[1:n] {
				req.More = append(req.More, sluice.Charge{Plan: plan, Key: strconv.Itoa(more), Cost: 1 + rnd.Int64N(3)})
			}
			if denied > passes/2*keys { // take the last units one by one
				req.Cost, req.More, n = 1, nil, 1
			}
			d, err := h.Store.Take(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if !d.Allowed {
				denied++
				continue
			}
			spent[k[0]].Add(req.Cost)
			for i, more := range k[1:n] {
				spent[more].Add(req.More[i].Cost)
			}
		}
	})
	for k := range spent {
		if got := spent[k].Load(); got != 1000 {
			t.Errorf("key %d: got %d units admitted, want 1000", k, got)
		}
		d, err := h.Store.Take(t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: plan, Key: strconv.Itoa(k), Cost: 1}})
		if err != nil || d.Allowed {
			t.Errorf("key %d: got %+v, %v, want a denial", k, d, err)
		}
	}
}

// testConcurrentRefunds has every caller take and refund units. It checks that never more than
// the quota is held, and that the key is full in the end.
func testConcurrentRefunds(t *testing.T, b *bench) {
	for i, text := range []string{"100/365d fixed-window anchor first", "100/365d sliding-log", "100/365d sliding-histogram precision 3", "100/365d sliding-counter"} {
		t.Run(text, func(t *testing.T) {
			h, _ := b.store(t)
			plan := testkit.Plan(t, fmt.Sprint("refunds ", i), text)
			var held, most atomic.Int64
			together(t, func(caller uint64) {
				rnd := rand.New(rand.NewPCG(caller, 3))
				for range min(max(h.Steps/10, 20), 200) {
					cost := 1 + rnd.Int64N(5)
					req := sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: cost}}
					d, err := h.Store.Take(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					if !d.Allowed {
						continue
					}
					now := held.Add(cost)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					held.Add(-cost)
					req.Op, req.At, req.Due = sluice.OpRefund, d.At, d.Due
					if d, err = h.Store.Take(t.Context(), req); err != nil || d.Spent != -cost {
						t.Errorf("refund of %d: got %+v, %v", cost, d, err)
						return
					}
				}
			})
			if got := most.Load(); got > 100 {
				t.Errorf("%d units were held at once, want at most 100", got)
			}
			d, err := h.Store.Take(t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}})
			if err != nil || d.Remaining != 100 {
				t.Errorf("after all refunds: got %+v, %v, want 100 remaining", d, err)
			}
		})
	}
}
