// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"maps"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestSlotDenies: a denial by a slot is no denial by a limit.
func TestSlotDenies(t *testing.T) {
	m := newMetrics(t)
	s := m.Wrap(memstore.New(memstore.Options{}), "memory")
	plan := testkit.Plan(t, "s", "rate: 9/min")
	limit := sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Minute}
	for _, owner := range []string{"a", "b", "c"} {
		slot := &sluice.Slot{SlotRequest: sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: owner, Cost: 1}}
		if _, err := s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}, Slot: slot}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := decisions(t, m), map[string]float64{series("s", "rate", "allowed"): 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ask := func(op sluice.SlotOp, owner string) sluice.SlotDecision {
		d, err := stores.Slot(t.Context(), s, sluice.SlotRequest{Op: op, Scope: "s", Limit: limit, Key: "k", Owner: owner, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := ask(sluice.SlotPeek, ""); d.Held != 1 {
		t.Errorf("got %+v, want the slots of the store within", d)
	}
	ask(sluice.SlotRelease, "a")
	ask(sluice.SlotAcquire, "d")
	ask(sluice.SlotAcquire, "e")
	ask(sluice.SlotRenew, "d")
	if _, err := stores.Slot(t.Context(), s, sluice.SlotRequest{Op: 77}); err == nil {
		t.Error("77 is a slot operation")
	}
	got := scraped(t, m)
	for name, want := range map[string]float64{
		`sluice_slot_decisions_total{limit="slots",scope="s",verdict="allowed"}`:    2,
		`sluice_slot_decisions_total{limit="slots",scope="s",verdict="denied"}`:     3,
		`sluice_operations_total{op="slot-acquire",store="memory"}`:                 2,
		`sluice_operations_total{op="slot-renew",store="memory"}`:                   1,
		`sluice_operations_total{op="slot-release",store="memory"}`:                 1,
		`sluice_operations_total{op="slot-peek",store="memory"}`:                    1,
		`sluice_operation_errors_total{op="unknown",store="memory"}`:                1,
		`sluice_operation_duration_seconds_count{op="slot-acquire",store="memory"}`: 2,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: got %v, %v, want %v", name, v, ok, want)
		}
	}
}

// TestSlotsStayVisible: the wrapped store has slots if and only if the inner store has.
func TestSlotsStayVisible(t *testing.T) {
	m := newMetrics(t)
	if _, ok := m.Wrap(memstore.New(memstore.Options{}), "memory").(sluice.SlotStore); !ok {
		t.Error("the slots of a store that keeps them are hidden")
	}
	if _, ok := m.Wrap(new(testkit.Store), "other").(sluice.SlotStore); ok {
		t.Error("a store seems to keep slots, and does not")
	}
}
