// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

const (
	linearKeys  = 3
	linearQuota = 6
)

// linearModel is what the store must look like from outside while the clock
// stands still: units left of each key. It knows nothing of algorithms.
var linearModel = porcupine.Model{
	Init: func() any { return linearState{left: [linearKeys]int64{linearQuota, linearQuota, linearQuota}} },
	Step: func(state, input, output any) (bool, any) {
		s, req, d := state.(linearState), input.(linearRequest), output.(sluice.Decision)
		ok := s.step(&req, &d)
		return ok, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

type linearState struct {
	left [linearKeys]int64
	void [linearKeys]bool // receipts of this instant
}

func (s *linearState) step(req *linearRequest, d *sluice.Decision) bool {
	left := &s.left
	fits := left[req.key] >= req.cost && (req.other < 0 || left[req.other] >= req.cost)
	switch req.op {
	case sluice.OpPeek:
		return d.Allowed == fits && d.Remaining == left[req.key]
	case sluice.OpRefund:
		back := min(req.cost, linearQuota-left[req.key])
		if s.void[req.key] {
			back = 0
		}
		left[req.key] += back
		return d.Spent == -back && d.Remaining == left[req.key]
	case sluice.OpTakeUpTo:
		n := min(req.cost, left[req.key])
		left[req.key] -= n
		return d.Spent == n && d.Remaining == left[req.key]
	case sluice.OpReset:
		left[req.key], s.void[req.key] = linearQuota, true
		return true
	}
	if !fits {
		return !d.Allowed
	}
	left[req.key] -= req.cost
	least := left[req.key]
	if req.other >= 0 {
		left[req.other] -= req.cost
		least = min(least, left[req.other])
	}
	return d.Allowed && d.Remaining == least
}

type linearRequest struct {
	op         sluice.Op
	key, other int // other: a second key, or -1
	cost       int64
}

func randomLinear(rnd *rand.Rand) linearRequest {
	r := linearRequest{key: rnd.IntN(linearKeys), other: -1, cost: 1 + rnd.Int64N(3)}
	switch rnd.IntN(10) {
	case 0:
		r.op = sluice.OpPeek
	case 1, 2:
		r.op = sluice.OpRefund
	case 3:
		r.op = sluice.OpTakeUpTo
	case 4:
		r.op = sluice.OpReset
	case 5, 6, 7:
		r.other = (r.key + 1 + rnd.IntN(linearKeys-1)) % linearKeys
	}
	return r
}

// TestLinearizable records the requests of many goroutines for few keys with their times,
// and has porcupine search for a serial order with the same answers.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	const goroutines, requests, rounds = 8, 25, 15
	for _, text := range []string{"6/h", "6/h sliding-log", "6/h fixed-window anchor first", "6/h sliding-counter sub-windows 2"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			p := testkit.Plan(t, "s", text)
			for round := range rounds {
				clock := testkit.NewClock()
				s := memstore.New(memstore.Options{Now: clock.Now})
				at := sluice.InstantOf(clock.Now())
				var ticks atomic.Int64
				var mu sync.Mutex
				var history []porcupine.Operation
				testkit.Together(t, goroutines, func(g int) error {
					rnd := rand.New(rand.NewPCG(uint64(round), uint64(g)))
					for range requests {
						in := randomLinear(rnd)
						req := testkit.Request(p, fmt.Sprint(in.key), in.cost)
						req.Op = in.op
						if in.op == sluice.OpRefund {
							req.At = at
						}
						if in.other >= 0 {
							req.More = []sluice.Charge{testkit.Request(p, fmt.Sprint(in.other), in.cost).Charge}
						}
						call := ticks.Add(1)
						d, err := s.Take(t.Context(), req)
						if err != nil {
							return err
						}
						op := porcupine.Operation{ClientId: g, Input: in, Call: call, Output: d, Return: ticks.Add(1)}
						mu.Lock()
						history = append(history, op)
						mu.Unlock()
					}
					return nil
				})
				if got := porcupine.CheckOperationsTimeout(linearModel, history, time.Minute); got != porcupine.Ok {
					t.Fatalf("round %d: got %v for %d requests, want %v", round, got, len(history), porcupine.Ok)
				}
			}
		})
	}
}
