// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// nodes returns stores with connections of their own, closed with the test.
func (c *Client) nodes(t *testing.T, url string, n int) []sluice.Store {
	t.Helper()
	nodes := make([]sluice.Store, n)
	for i := range nodes {
		nodes[i] = testkit.Closed(t, c.Open(t, Target{URL: url, Patient: true}, redisstore.Options{Timeout: testkit.Ceiling}))
	}
	return nodes
}

// exact (invariant 17): what many goroutines of several nodes are admitted at once is
// the quota, neither more nor less.
func (c *Client) exact(t *testing.T, url string) {
	const nodes, goroutines, each, units = 4, 16, 25, 300 // 1600 takes
	var admitted, denied atomic.Int64
	var group sync.WaitGroup
	for _, node := range c.nodes(t, url, nodes) {
		lim := testkit.Limiter(t, node, "sum", fmt.Sprintf("%d/h sliding-log", units))
		for range goroutines {
			group.Go(func() {
				for range each {
					switch d, err := lim.Take(t.Context(), "k", 1); {
					case err != nil:
						t.Error(err)
					case d.Allowed:
						admitted.Add(1)
					default:
						denied.Add(1)
					}
				}
			})
		}
	}
	group.Wait()
	if a, d := admitted.Load(), denied.Load(); a != units || a+d != nodes*goroutines*each {
		t.Errorf("%d admitted, %d denied; want %d and the others", a, d, units)
	}
}

const linearQuota = 6

// sequential is what one key must look like from outside: units left. It knows
// nothing of algorithms.
var sequential = porcupine.Model{
	Init: func() any { return int64(linearQuota) },
	Step: func(state, input, output any) (bool, any) {
		left, req, d := state.(int64), input.(sluice.Request), output.(sluice.Decision)
		switch req.Op {
		case sluice.OpPeek:
			return d.Allowed == (left >= req.Cost) && d.Remaining == left, left
		case sluice.OpTakeUpTo:
			n := min(req.Cost, left)
			return d.Spent == n && d.Remaining == left-n, left - n
		case sluice.OpReset:
			return true, int64(linearQuota)
		default:
			if left < req.Cost {
				return !d.Allowed, left
			}
			return d.Allowed && d.Remaining == left-req.Cost, left - req.Cost
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// linearizable (invariant 17) records what many goroutines of several nodes ask of one
// key, and when, and has porcupine look for a serial order with the same answers.
func (c *Client) linearizable(t *testing.T, url string) {
	const count, goroutines, requests, rounds = 3, 3, 12, 8
	nodes := c.nodes(t, url, count)
	for _, text := range []string{"6/366day", "6/366day sliding-log", "6/366day fixed-window anchor first", "6/366day sliding-counter"} {
		for round := range rounds {
			history := record(t, nodes, text, uint64(round), goroutines, requests)
			if got := porcupine.CheckOperationsTimeout(sequential, history, time.Minute); got != porcupine.Ok {
				t.Fatalf("%s, round %d: got %v for %d requests, want %v", text, round, got, len(history), porcupine.Ok)
			}
		}
	}
}

// record lets goroutines of every node ask for random things of one key.
func record(t *testing.T, nodes []sluice.Store, text string, seed uint64, goroutines, requests int) (history []porcupine.Operation) {
	t.Helper()
	var ticks atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for n, node := range nodes {
		lim := testkit.Limiter(t, node, text, text)
		for g := range goroutines {
			id := n*goroutines + g
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(id)))
				for range requests {
					req := sluice.Request{Charge: lim.Of(strconv.FormatUint(seed, 10), 1+rnd.Int64N(3))}
					switch rnd.IntN(12) {
					case 0, 1:
						req.Op = sluice.OpPeek
					case 2, 3:
						req.Op = sluice.OpTakeUpTo
					case 4:
						req.Op = sluice.OpReset
					}
					call := ticks.Add(1)
					d, err := node.Take(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					op := porcupine.Operation{ClientId: id, Input: req, Call: call, Output: d, Return: ticks.Add(1)}
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	return history
}
