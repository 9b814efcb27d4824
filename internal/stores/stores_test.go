// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestCloneIsItsOwn: values written into a clone reach its request by Fill only.
func TestCloneIsItsOwn(t *testing.T) {
	p := testkit.Compile(t, "api", sluice.PerMinute(5))
	req := sluice.Request{
		Charge: sluice.Charge{Plan: p, Key: "a", Cost: 1}, More: []sluice.Charge{{Plan: p, Key: "b", Cost: 1}},
		Outcomes: new(make(sluice.Outcomes, 2)), Slot: new(sluice.Slot),
	}
	c := stores.Clone(&req)
	c.More[0].Key = "c"
	(*c.Outcomes)[1].Remaining = 7
	c.Slot.Decision.Held = 8
	if req.More[0].Key != "b" || (*req.Outcomes)[1].Remaining != 0 || req.Slot.Decision.Held != 0 {
		t.Fatalf("the request shares memory with its clone: %+v", req)
	}
	stores.Fill(&req, &c)
	if (*req.Outcomes)[1].Remaining != 7 || req.Slot.Decision.Held != 8 {
		t.Errorf("the request was not filled: %+v, %+v", *req.Outcomes, req.Slot)
	}
	bare := sluice.Request{Charge: req.Charge}
	c = stores.Clone(&bare)
	if stores.Fill(&bare, &c); c.More != nil || c.Outcomes != nil || c.Slot != nil {
		t.Errorf("a clone has what its request has not: %+v", c)
	}
}

// TestSlotNamesTheStore: a store that keeps no slots says so.
func TestSlotNamesTheStore(t *testing.T) {
	limit := sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Second}
	req := sluice.SlotRequest{Scope: "s", Limit: limit, Owner: "o", Cost: 1}
	store := memstore.New(memstore.Options{})
	if d, err := stores.Slot(t.Context(), store, req); err != nil || !d.Allowed {
		t.Errorf("Slot = %+v, %v, want what the store says", d, err)
	}
	if _, err := stores.Slot(t.Context(), struct{ sluice.Store }{store}, req); !errors.Is(err, sluice.ErrNoSlots) {
		t.Errorf("Slot = %v, want ErrNoSlots", err)
	}
}
