// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
)

// holding is a key of slots.
type holding struct{ scope, name, key string }

// slotIsFree reports whether the slot of req is free. If not, it fills in the slot's decision.
func (m *model) slotIsFree(req *sluice.Request, now int64) bool {
	look := req.Slot.SlotRequest
	look.Op = sluice.SlotPeek
	d := m.slot(look, now)
	if !d.Allowed {
		req.Slot.Decision = d
	}
	return d.Allowed
}

// slot decides a request for slots by one of the owners that [slotted] draws.
func (m *model) slot(req sluice.SlotRequest, now int64) sluice.SlotDecision {
	at := holding{req.Scope, req.Limit.Name, req.Key}
	if m.holders[at] == nil {
		m.holders[at] = &algo.State{}
	}
	owner, err := strconv.ParseUint(req.Owner, 10, 64)
	if err != nil {
		owner = 1 << 32 // nobody
	}
	d, _ := algo.DecideSlot(&req, owner, m.holders[at], now)
	return d
}

// checkSlot compares the result of a request's slot. If the slot denies, the decision got must
// have its RetryAfter. A store with a clock of its own may have acquired slots a little later
// than the model.
func (c *checker) checkSlot(t *testing.T, req sluice.Request, slot sluice.SlotDecision, got *sluice.Decision, want sluice.Decision) {
	t.Helper()
	wanted := req.Slot.Decision
	if slot.RetryAfter > 0 && got.RetryAfter != slot.RetryAfter {
		t.Fatalf("%s: got a retry after %v, want that of the slot, %v", describe(req), got.RetryAfter, slot.RetryAfter)
	}
	if c.h.OwnClock && slot.RetryAfter > 0 && wanted.RetryAfter > 0 && slot.TooLarge == wanted.TooLarge {
		slot.RetryAfter, got.RetryAfter = wanted.RetryAfter, want.RetryAfter
	}
	if slot != wanted {
		c.differs(t, "%s at %d: slot\n got %+v\nwant %+v", describe(req), c.clock.Micros(), slot, wanted)
	}
}

// slotted draws requests with a slot, and requests for slots.
type slotted struct {
	*source
	ttls []time.Duration
}

func newSlotted(t *testing.T, h Harness, seed uint64) slotted {
	t.Helper()
	s := slotted{newSource(seed, 3, plans(t)), []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}}
	if h.OwnClock { // no slot must expire, as the instant is not known
		s.ttls = []time.Duration{time.Hour}
	}
	return s
}

// request returns a take or a peek with a slot or, at times, another request.
func (s slotted) request() sluice.Request {
	req := s.source.request()
	for req.Op != sluice.OpTake && req.Op != sluice.OpPeek && s.IntN(3) > 0 {
		req = s.source.request()
	}
	switch req.Op { //nolint:exhaustive // no other operation has a slot
	case sluice.OpTake:
		req.Slot = &sluice.Slot{SlotRequest: s.slot(sluice.SlotAcquire)}
	case sluice.OpPeek:
		req.Slot = &sluice.Slot{SlotRequest: s.slot(sluice.SlotPeek)}
	}
	if s.IntN(4) == 0 && req.Slot != nil { // like most: of the scope and key of the units
		req.Slot.Scope, req.Slot.Key = req.Plan.Scope(), req.Key
	}
	return req
}

func (s slotted) slot(op sluice.SlotOp) sluice.SlotRequest {
	req := sluice.SlotRequest{
		Op: op, Scope: "slots", Key: fmt.Sprint("key ", s.IntN(3)), Owner: strconv.Itoa(s.IntN(10)), Cost: 1,
		Limit: sluice.SlotLimit{Name: fmt.Sprint("limit-", s.IntN(2)), Cap: 1 + s.Int64N(8), TTL: s.ttls[s.IntN(len(s.ttls))]},
	}
	if s.IntN(4) == 0 {
		req.Cost = 1 + s.Int64N(9)
	}
	return req
}

// testTakesWithSlots sends requests with slots to the store, alone and in batches, and
// requests for slots only.
func testTakesWithSlots(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.slots(t)
		c, rnd := newChecker(h, clock), newSlotted(t, h, seed)
		var seen [4]int
		for range h.Steps {
			switch rnd.IntN(8) {
			case 0, 1, 2:
				c.slot(t, rnd.slot(sluice.SlotRelease))
			case 3:
				c.slot(t, rnd.slot(sluice.SlotOp(rnd.IntN(4))))
			case 4:
				c.batch(t, rnd)
			default:
				req := rnd.request()
				d := c.take(t, req)
				rnd.keep(req, d)
				if req.Slot != nil {
					seen[cameOf(d, req.Slot)]++
				}
			}
			clock.move(rnd.Rand)
		}
		for i, n := range seen {
			if n < max(h.Steps/200, 1) && i != 0 {
				t.Errorf("outcome %d came %d times of %d: the test is too weak", i, n, h.Steps)
			}
		}
	})
}

// cameOf returns 1 if the slot and the units were granted, 2 if the slot was denied and 3 if
// the units were denied.
func cameOf(d sluice.Decision, s *sluice.Slot) int {
	switch {
	case d.Allowed:
		return 1
	case stores.Denies(s):
		return 2
	default:
		return 3
	}
}

// slot sends a request for slots only to the store and to the model.
func (c *checker) slot(t *testing.T, req sluice.SlotRequest) {
	t.Helper()
	got, err := c.h.Slots.Slot(t.Context(), req)
	if err != nil {
		t.Fatalf("%+v: %v", req, err)
	}
	now := c.clock.Micros()
	if c.h.OwnClock {
		now = c.latest
	}
	want := c.model.slot(req, now)
	if c.h.OwnClock && got.RetryAfter > 0 && want.RetryAfter > 0 && got.TooLarge == want.TooLarge {
		got.RetryAfter = want.RetryAfter
	}
	if got != want {
		t.Fatalf("%+v at %d:\n got %+v\nwant %+v", req, now, got, want)
	}
}

// batch sends a few requests to the store at once.
func (c *checker) batch(t *testing.T, rnd slotted) {
	t.Helper()
	reqs := make([]sluice.Request, rnd.IntN(6))
	for i := range reqs {
		reqs[i] = rnd.request()
		reqs[i].Outcomes = new(make(sluice.Outcomes, reqs[i].Limits()))
	}
	out := make([]sluice.Result, len(reqs))
	c.asked = time.Now()
	if err := sluice.TakeBatch(t.Context(), c.h.Store, reqs, out); err != nil {
		t.Fatalf("batch of %d: %v", len(reqs), err)
	}
	for i, req := range reqs {
		if out[i].Err != nil {
			t.Fatalf("%s, %d of a batch: got error %v", describe(req), i+1, out[i].Err)
		}
		c.check(t, req, out[i].Decision)
		rnd.keep(req, out[i].Decision)
	}
}

// testTakesWithSlotsConcurrent has many owners take units and slots of one key and of several
// at the same time. It checks that the cap is never exceeded, and that in the end as many
// units are spent as requests were allowed.
func testTakesWithSlotsConcurrent(t *testing.T, b *bench) {
	h, _ := b.slots(t)
	plan := testkit.Plan(t, "s", "60000/day sliding-log")
	limit := sluice.SlotLimit{Name: "slots", Cap: 3, TTL: time.Hour}
	all := owners{h: h}
	together(t, func(caller uint64) {
		rnd := rand.New(rand.NewPCG(caller, 6))
		for range 100 {
			req := testkit.Request(plan, "k", 1)
			if rnd.IntN(2) == 0 {
				req.More = []sluice.Charge{{Plan: plan, Key: "l", Cost: 1}}
			}
			req.Slot = &sluice.Slot{SlotRequest: sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: strconv.FormatUint(caller, 10), Cost: 1}}
			d, err := h.Store.Take(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if d.Allowed && !all.work(t, req.Slot.SlotRequest) {
				return
			}
		}
	})
	all.check(t, limit.Cap)
	if got := testkit.Spent(t, h.Store, plan, "k"); got != all.worked.Load() {
		t.Errorf("%d units are spent, want those of %d requests", got, all.worked.Load())
	}
}
