// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestKeysInAFullStore wants the keys of a request not to make room for each
// other.
func TestKeysInAFullStore(t *testing.T) {
	for _, limit := range []string{"9/h", "9/h fixed-window", "9/h sliding-log"} {
		plan := testkit.Plan(t, "s", limit)
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{MaxKeys: 2, Now: clock.Now})
		for i := range 100 {
			clock.Advance(time.Millisecond)
			a, b := testkit.Request(plan, "a"+strconv.Itoa(i), 1), testkit.Request(plan, "b"+strconv.Itoa(i), 1)
			a.More = []sluice.Charge{b.Charge}
			testkit.Take(t, s, a)
			if n := testkit.Spent(t, s, plan, a.Key) + testkit.Spent(t, s, plan, b.Key); n != 2 {
				t.Fatalf("%s: after take %d of a unit of two keys: spent %d, want 2", limit, i, n)
			}
		}
	}
}

// TestSlotAndUnitsInAFullStore wants a request to keep all that it has got: its
// slot and its units must not make room for each other.
func TestSlotAndUnitsInAFullStore(t *testing.T) {
	for _, limit := range []string{"9/h", "9/h fixed-window", "9/h sliding-log"} {
		plan := testkit.Plan(t, "s", limit)
		clock := testkit.NewClock()
		s := memstore.New(memstore.Options{MaxKeys: 2, Now: clock.Now})
		for i := range 100 {
			clock.Advance(time.Millisecond)
			req := testkit.Request(plan, strconv.Itoa(i), 1)
			slot := sluice.SlotRequest{Scope: "s", Limit: sluice.SlotLimit{Name: "slots", Cap: 2, TTL: time.Hour}, Key: req.Key, Owner: "o", Cost: 1}
			req.Slot = &sluice.Slot{SlotRequest: slot}
			if d := testkit.Take(t, s, req); !d.Allowed || req.Slot.Decision.Held != 1 {
				t.Fatalf("%s: take %d: got %+v with %+v", limit, i, d, req.Slot.Decision)
			}
			slot.Op = sluice.SlotPeek
			d, err := s.Slot(t.Context(), slot)
			if spent := testkit.Spent(t, s, plan, req.Key); err != nil || d.Held != 1 || spent != 1 {
				t.Fatalf("%s: after take %d: held %d, spent %d, %v, want 1 and 1", limit, i, d.Held, spent, err)
			}
		}
	}
}
