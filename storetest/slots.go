// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/storekit"
)

// testSlots puts random slot requests to the store and to package algo.
func testSlots(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.store(t)
		if h.Slots == nil {
			t.Skip("the store keeps no slots")
		}
		rnd := rand.New(rand.NewPCG(seed, 4))
		ttls := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}
		if h.OwnClock { // nothing expires, as nobody knows when
			ttls = []time.Duration{time.Hour}
		}
		states := make(map[string]*algo.State)
		for range h.Steps {
			req := sluice.SlotRequest{
				Op:    sluice.SlotOp(rnd.IntN(4)),
				Scope: "slots",
				Limit: sluice.SlotLimit{Name: fmt.Sprint("limit-", rnd.IntN(2)), Cap: 1 + rnd.Int64N(8), TTL: ttls[rnd.IntN(len(ttls))]},
				Key:   strconv.Itoa(rnd.IntN(3)),
				Cost:  1,
			}
			owner := uint64(rnd.IntN(10))
			req.Owner = fmt.Sprint("owner ", owner)
			if rnd.IntN(3) == 0 {
				req.Cost = 1 + rnd.Int64N(9)
			}
			got, err := h.Slots.Slot(t.Context(), req)
			if err != nil {
				t.Fatalf("%+v: %v", req, err)
			}
			place := req.Limit.Name + "|" + req.Key
			if states[place] == nil {
				states[place] = &algo.State{}
			}
			want, _ := algo.DecideSlot(&req, owner, states[place], clock.Micros())
			if h.OwnClock {
				if (got.RetryAfter == 0) != (want.RetryAfter == 0) || (got.RetryAfter == sluice.Never) != (want.RetryAfter == sluice.Never) {
					t.Fatalf("%+v: got %+v, want %+v or sooner", req, got, want)
				}
				got.RetryAfter = want.RetryAfter
			}
			if got != want {
				t.Fatalf("%+v at %d:\n got %+v\nwant %+v", req, clock.Micros(), got, want)
			}
			if !h.OwnClock {
				clock.move(rnd)
			}
		}
	})
}

// testSlotsRefused puts invalid slot requests to the store.
func testSlotsRefused(t *testing.T, b *bench) {
	h, _ := b.store(t)
	if h.Slots == nil {
		t.Skip("the store keeps no slots")
	}
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
	plan := storekit.Plan(t, "s", "5/day sliding-log")
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
		req := storekit.Request(plan, "k", 1)
		req.Op, req.Slot = bad.op, &sluice.Slot{SlotRequest: good}
		req.Slot.Op = bad.slot
		if bad.change != nil {
			bad.change(&req.Slot.SlotRequest)
		}
		_, err := h.Store.Take(t.Context(), req)
		wantRefused(t, bad.name, err, req.Validate())
	}
	if got := storekit.Spent(t, h.Store, plan, "k"); got != 0 {
		t.Errorf("refused requests have spent %d", got)
	}
	d, err := h.Slots.Slot(t.Context(), good)
	if want := (sluice.SlotDecision{Allowed: true, Held: 2}); err != nil || d != want {
		t.Errorf("after refusals: got %+v, %v, want %+v", d, err, want)
	}
}

// testSlotsConcurrent has many owners work under one cap, which is never
// exceeded; in the end nothing is held.
func testSlotsConcurrent(t *testing.T, b *bench) {
	h, _ := b.store(t)
	if h.Slots == nil {
		t.Skip("the store keeps no slots")
	}
	limit := sluice.SlotLimit{Name: "slots", Cap: 7, TTL: time.Hour}
	var held, most, worked atomic.Int64
	together(t, func(caller uint64) {
		rnd := rand.New(rand.NewPCG(caller, 5))
		for range 200 {
			req := sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: strconv.FormatUint(caller, 10), Cost: 1 + rnd.Int64N(3)}
			d, err := h.Slots.Slot(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if !d.Allowed {
				continue
			}
			worked.Add(1)
			now := held.Add(req.Cost)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			held.Add(-req.Cost)
			req.Op = sluice.SlotRelease
			if d, err := h.Slots.Slot(t.Context(), req); err != nil || !d.Allowed {
				t.Errorf("release: got %+v, %v", d, err)
				return
			}
		}
	})
	if most.Load() > limit.Cap || worked.Load() == 0 {
		t.Errorf("%d owners at work held up to %d, want at most %d", worked.Load(), most.Load(), limit.Cap)
	}
	d, err := h.Slots.Slot(t.Context(), sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "last", Cost: limit.Cap})
	if want := (sluice.SlotDecision{Allowed: true, Held: limit.Cap}); err != nil || d != want {
		t.Errorf("when all are done: got %+v, %v, want %+v", d, err, want)
	}
}
