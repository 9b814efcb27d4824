// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// slots returns a store that keeps slots, or skips the test.
func (b *bench) slots(t *testing.T) (Harness, *hand) {
	t.Helper()
	h, clock := b.store(t)
	if h.Slots == nil {
		t.Skip("the store keeps no slots")
	}
	return h, clock
}

// testSlots sends random slot requests to the store, and compares it with package algo.
func testSlots(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.slots(t)
		c, rnd := newChecker(h, clock), newSlotted(t, h, seed)
		for range h.Steps {
			c.slot(t, rnd.slot(sluice.SlotOp(rnd.IntN(4))))
			clock.move(rnd.Rand)
		}
	})
}

// testSlotsRefused sends invalid slot requests to the store.
func testSlotsRefused(t *testing.T, b *bench) {
	h, _ := b.slots(t)
	limit := sluice.SlotLimit{Name: "slots", Cap: 2, TTL: time.Hour}
	for _, bad := range []struct {
		name string
		req  sluice.SlotRequest
	}{
		{"unknown operation", sluice.SlotRequest{Op: 9, Scope: "s", Limit: limit, Key: "k", Owner: "o", Cost: 1}},
		{"no owner", sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Cost: 1}},
		{"owner too long", sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: strings.Repeat("o", sluice.MaxKeyBytes+1), Cost: 1}},
		{"key too long", sluice.SlotRequest{Scope: "s", Limit: limit, Key: strings.Repeat("k", sluice.MaxKeyBytes+1), Owner: "o", Cost: 1}},
		{"no cost", sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "o"}},
		{"negative cost", sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "o", Cost: -1}},
	} {
		_, err := h.Slots.Slot(t.Context(), bad.req)
		wantRefused(t, bad.name, err, bad.req.Validate())
	}
	good := sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "o", Cost: 2}
	plan := testkit.Plan(t, "s", "5/day sliding-log")
	for _, bad := range []struct {
		name   string
		op     sluice.Op
		slot   sluice.SlotOp
		change func(*sluice.SlotRequest)
	}{
		{name: "a charge with a slot", op: sluice.OpCharge},
		{name: "a take that looks at a slot", slot: sluice.SlotPeek},
		{name: "a peek that acquires a slot", op: sluice.OpPeek},
		{name: "a take with a slot of nobody", change: func(r *sluice.SlotRequest) { r.Owner = "" }},
	} {
		req := testkit.Request(plan, "k", 1)
		req.Op, req.Slot = bad.op, &sluice.Slot{SlotRequest: good}
		req.Slot.Op = bad.slot
		if bad.change != nil {
			bad.change(&req.Slot.SlotRequest)
		}
		_, err := h.Store.Take(t.Context(), req)
		wantRefused(t, bad.name, err, req.Validate())
	}
	if got := testkit.Spent(t, h.Store, plan, "k"); got != 0 {
		t.Errorf("refused requests have spent %d", got)
	}
	d, err := h.Slots.Slot(t.Context(), good)
	if want := (sluice.SlotDecision{Allowed: true, Held: 2}); err != nil || d != want {
		t.Errorf("after refusals: got %+v, %v, want %+v", d, err, want)
	}
}

// owners counts owners that hold slots at the same time.
type owners struct {
	h                  Harness
	held, most, worked atomic.Int64
}

// work counts slots that were acquired, and releases them. It reports whether they were
// released.
func (o *owners) work(t *testing.T, req sluice.SlotRequest) bool {
	t.Helper()
	o.worked.Add(1)
	now := o.held.Add(req.Cost)
	for seen := o.most.Load(); now > seen && !o.most.CompareAndSwap(seen, now); seen = o.most.Load() {
	}
	o.held.Add(-req.Cost)
	req.Op = sluice.SlotRelease
	d, err := o.h.Slots.Slot(t.Context(), req)
	if err != nil || !d.Allowed {
		t.Errorf("release: got %+v, %v", d, err)
	}
	return err == nil && d.Allowed
}

// check fails the test if more than slots were held at once.
func (o *owners) check(t *testing.T, slots int64) {
	t.Helper()
	if o.most.Load() > slots || o.worked.Load() == 0 {
		t.Errorf("%d owners at work held up to %d, want at most %d", o.worked.Load(), o.most.Load(), slots)
	}
}

// testSlotsConcurrent has many owners acquire slots under one cap. It checks that they never
// exceed it, and that no slot is held in the end.
func testSlotsConcurrent(t *testing.T, b *bench) {
	h, _ := b.slots(t)
	limit := sluice.SlotLimit{Name: "slots", Cap: 7, TTL: time.Hour}
	all := owners{h: h}
	together(t, func(caller uint64) {
		rnd := rand.New(rand.NewPCG(caller, 5))
		for range 200 {
			req := sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: strconv.FormatUint(caller, 10), Cost: 1 + rnd.Int64N(3)}
			d, err := h.Slots.Slot(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if d.Allowed && !all.work(t, req) {
				return
			}
		}
	})
	all.check(t, limit.Cap)
	d, err := h.Slots.Slot(t.Context(), sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "last", Cost: limit.Cap})
	if want := (sluice.SlotDecision{Allowed: true, Held: limit.Cap}); err != nil || d != want {
		t.Errorf("when all are done: got %+v, %v, want %+v", d, err, want)
	}
}
