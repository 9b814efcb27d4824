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

// TestRequestInAFullStore: a request keeps all its states: the units of its keys and its slot
// do not evict each other.
func TestRequestInAFullStore(t *testing.T) {
	for _, limit := range []string{"9/h", "9/h fixed-window", "9/h sliding-log"} {
		plan := testkit.Plan(t, "s", limit)
		clock := testkit.NewClock()
		keys := memstore.New(memstore.Options{MaxKeys: 2, Now: clock.Now})
		slots := memstore.New(memstore.Options{MaxKeys: 2, Now: clock.Now})
		for i := range 100 {
			clock.Advance(time.Millisecond)
			a, b := testkit.Request(plan, "a"+strconv.Itoa(i), 1), testkit.Request(plan, "b"+strconv.Itoa(i), 1)
			slot := sluice.SlotRequest{Scope: "s", Limit: sluice.SlotLimit{Name: "slots", Cap: 2, TTL: time.Hour}, Key: b.Key, Owner: "o", Cost: 1}
			b.Slot = &sluice.Slot{SlotRequest: slot}
			if d := testkit.Take(t, slots, b); !d.Allowed || b.Slot.Decision.Held != 1 {
				t.Fatalf("%s: take %d: got %+v with %+v", limit, i, d, b.Slot.Decision)
			}
			slot.Op = sluice.SlotPeek
			d, err := slots.Slot(t.Context(), slot)
			if spent := testkit.Spent(t, slots, plan, b.Key); err != nil || d.Held != 1 || spent != 1 {
				t.Fatalf("%s: after take %d: held %d, spent %d, %v, want 1 and 1", limit, i, d.Held, spent, err)
			}
			a.More = []sluice.Charge{b.Charge}
			testkit.Take(t, keys, a)
			if n := testkit.Spent(t, keys, plan, a.Key) + testkit.Spent(t, keys, plan, b.Key); n != 2 {
				t.Fatalf("%s: after take %d of a unit of two keys: spent %d, want 2", limit, i, n)
			}
		}
	}
}
