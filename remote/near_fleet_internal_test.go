// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// slotted is a store that decides a slot together with the units, one request at a time.
type slotted struct {
	sluice.Store
	mu   sync.Mutex
	held map[string]int64 // slots by key
}

func (s *slotted) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := req.Slot
	if slot == nil {
		return s.Store.Take(ctx, req)
	}
	if s.held[slot.Key]+slot.Cost > slot.Limit.Cap {
		slot.Decision = sluice.SlotDecision{Held: s.held[slot.Key], RetryAfter: slot.Limit.TTL}
		return sluice.Decision{RetryAfter: slot.Limit.TTL}, nil
	}
	req.Slot = nil
	d, err := s.Store.Take(ctx, req)
	slot.Decision = sluice.SlotDecision{}
	if err == nil && d.Allowed && req.Op == sluice.OpTake {
		s.held[slot.Key] += slot.Cost
		slot.Decision = sluice.SlotDecision{Allowed: true, Held: s.held[slot.Key]}
	}
	return d, err
}

func (s *slotted) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key]--
}

func slotOf(key, owner string, most int64) *sluice.Slot {
	limit := sluice.SlotLimit{Name: "slots", Cap: most, TTL: time.Second}
	return &sluice.Slot{SlotRequest: sluice.SlotRequest{Scope: "fleet", Limit: limit, Key: key, Owner: owner, Cost: 1}}
}

// books record the units of each key, as the callers of a fleet and its store know them: both
// must agree in the end.
type books struct {
	mu   sync.Mutex
	held map[string]int64 // by callers
	lost map[string]int64 // with answers that did not arrive
}

// enter records the units that a request has spent of each key. A receipt may find fewer of
// one key than of another.
func enter(units map[string]int64, req *sluice.Request, d *sluice.Decision) {
	for i := range req.Charges() {
		spent := d.Spent
		if i > 0 {
			spent = (*req.Outcomes)[i].Spent
		}
		units[req.Nth(i).Key] += spent
	}
}

// TestFleetKeepsTheBooks: several nodes ask at once, alone and in batches, leased and not,
// with slots and refunds, and calls fail. Each unit that the store counts belongs to a caller,
// was lost with an answer, or is counted as lost by a node; and no key has more than its
// quota.
func TestFleetKeepsTheBooks(t *testing.T) {
	const quota = 400
	for _, leased := range []bool{true, false} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			clock := testkit.NewClock()
			plan := testkit.Plan(t, "fleet", "400/h sliding-log")
			b := &books{held: map[string]int64{}, lost: map[string]int64{}}
			var dice sync.Mutex
			rnd := rand.New(rand.NewPCG(7, 7))
			roll := func(n int) bool {
				dice.Lock()
				defer dice.Unlock()
				return rnd.IntN(n) == 0
			}
			down := false
			slots := &slotted{Store: memstore.New(memstore.Options{Now: clock.Now}), held: map[string]int64{}}
			store := &testkit.Store{
				Store: slots,
				Before: func(context.Context, sluice.Request) error {
					if !down && roll(30) {
						return &sluice.NotSentError{Err: errLost}
					}
					return nil
				},
				After: func(req sluice.Request, r sluice.Result) error {
					if down || r.Err != nil || !roll(30) {
						return nil
					}
					b.mu.Lock()
					defer b.mu.Unlock()
					if req.Op != sluice.OpPeek {
						enter(b.lost, &req, &r.Decision)
					}
					return sluice.NewMaybeSentError(errLost, func(bool, func(sluice.Late)) {})
				},
			}
			o := Options{Now: clock.Now}
			if leased {
				o.Lease = always(sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 12})
			}
			nodes := make([]*nearStore, 4)
			var wg sync.WaitGroup
			for i := range nodes {
				nodes[i] = newNearStore(store, o)
				for g := range 4 {
					wg.Go(func() {
						c := &client{t: t, node: nodes[i], plan: plan, books: b, slots: slots, rnd: rand.New(rand.NewPCG(uint64(i), uint64(g))), name: fmt.Sprint(i, g)}
						for range 1_500 {
							c.step()
							clock.Advance(20 * time.Microsecond)
						}
					})
				}
			}
			wg.Wait()
			down = true // no more random choices
			var lost int64
			var answered, allowed uint64
			for _, n := range nodes {
				if err := n.giveBack(t.Context()); err != nil {
					t.Error(err)
				}
				l := n.leases()
				lost += int64(l.Lost)
				allowed += l.Allowed
				answered += n.denials().Answered
				if left := n.remembered(); left > 64 {
					t.Errorf("%d entries are left of 3 keys", left)
				}
			}
			if answered == 0 || leased != (allowed > 0) {
				t.Errorf("%d denied from memory, %d allowed from units in hand", answered, allowed)
			}
			var books, spent int64
			under, err := nodes[0].infoOf(plan)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keysOfFleet {
				here := testkit.Spent(t, slots, under.plan, key)
				if here > quota {
					t.Errorf("key %s: %d units count of %d", key, here, quota)
				}
				spent += here
				books += b.held[key] + b.lost[key]
			}
			if spent != books+lost {
				t.Errorf("%d units count, %d are held or were lost with answers, %d by nodes", spent, books, lost)
			}
		})
	}
}

var keysOfFleet = []string{"a", "b", "c"}

// remembered returns the number of entries.
func (n *near) remembered() (sum int) {
	for i := range n.shards {
		sum += len(n.shards[i].entries)
	}
	return sum
}

// client is one caller of a node.
type client struct {
	t        *testing.T
	node     *nearStore
	plan     *sluice.Plan
	books    *books
	slots    *slotted
	rnd      *rand.Rand
	name     string
	receipts []sluice.Request
}

func (c *client) step() {
	req := testkit.Request(c.plan, keysOfFleet[c.rnd.IntN(3)], 1+c.rnd.Int64N(3)/2)
	switch c.rnd.IntN(12) {
	case 0:
		req.Op, req.Cost = sluice.OpTakeUpTo, 5
	case 1:
		req.Op = sluice.OpPeek
	case 2:
		if other := keysOfFleet[c.rnd.IntN(3)]; other != req.Key {
			req.More = []sluice.Charge{{Plan: c.plan, Key: other, Cost: req.Cost}}
			req.Outcomes = new(make(sluice.Outcomes, 2))
		}
	case 3:
		req.Slot = slotOf(req.Key, c.name, 3)
	case 4:
		req.Outcomes = new(make(sluice.Outcomes, 1))
	case 5, 6, 7:
		if n := len(c.receipts); n > 0 {
			req, c.receipts = c.receipts[n-1], c.receipts[:n-1]
		}
	case 8:
		c.several(req)
		return
	}
	d, err := c.node.Take(context.Background(), req)
	c.note(req, d, err)
}

func (c *client) several(req sluice.Request) {
	reqs := []sluice.Request{req, req, testkit.Request(c.plan, "a", 1), req}
	out := make([]sluice.Result, len(reqs))
	if err := c.node.TakeBatch(context.Background(), reqs, out); err != nil {
		if !errors.Is(err, errLost) {
			c.t.Error(err)
		}
		return
	}
	for i, r := range out {
		c.note(reqs[i], r.Decision, r.Err)
	}
}

func (c *client) note(req sluice.Request, d sluice.Decision, err error) {
	if err != nil {
		if !errors.Is(err, errLost) {
			c.t.Errorf("%v: %v", req.Op, err)
		}
		return
	}
	if s := req.Slot; s != nil && s.Decision.Allowed {
		if !d.Allowed {
			c.t.Errorf("a slot without its units: %+v", d)
		}
		c.slots.release(s.Key)
	}
	if req.Op == sluice.OpPeek {
		return
	}
	c.books.mu.Lock()
	enter(c.books.held, &req, &d)
	c.books.mu.Unlock()
	if d.Spent > 0 {
		undo := sluice.Request{Op: sluice.OpRefund, Charge: req.Charge, At: d.At}
		undo.Cost = d.Spent
		for _, more := range req.More {
			more.Cost = d.Spent
			undo.More = append(undo.More, more)
			undo.Outcomes = new(make(sluice.Outcomes, 2))
		}
		c.receipts = append(c.receipts, undo)
	}
}
