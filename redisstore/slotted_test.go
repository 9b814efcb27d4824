// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// withSlot returns a take of a unit of a key with a slot for an owner.
func withSlot(p *sluice.Plan, key, owner string, most int64) sluice.Request {
	req := testkit.Request(p, key, 1)
	req.Slot = &sluice.Slot{SlotRequest: sluice.SlotRequest{
		Scope: p.Scope(), Limit: sluice.SlotLimit{Name: "slots", Cap: most, TTL: time.Minute}, Key: key, Owner: owner, Cost: 1,
	}}
	return req
}

// TestSlotAndUnitsAreOneCall: one script decides both, whatever the outcome is.
func TestSlotAndUnitsAreOneCall(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := redistest.Shared(t, b)
			s, client := open(t, server, redisstore.Options{Timeout: testkit.Ceiling}), server.Client(t)
			for _, limit := range []string{"3/day", "3/day sliding-log", "3/year calendar UTC", "3/366day sliding-counter"} {
				p := testkit.Plan(t, limit, limit)
				testkit.Take(t, s, withSlot(p, "other", "a", 2)) // the server learns the script
				redistest.ScriptCalls(t, client)
				for _, step := range []struct {
					name, owner string
					allowed     bool
					held        int64
				}{
					{"granted", "a", true, 1},
					{"granted", "b", true, 2},
					{"the slot denies", "c", false, 2},
					{"renewed", "b", true, 2},
					{"the units are denied", "b", false, 0},
				} {
					req := withSlot(p, "k", step.owner, 2)
					d := testkit.Take(t, s, req)
					if d.Allowed != step.allowed || req.Slot.Decision.Held != step.held {
						t.Errorf("%s: %s: got %+v with %+v", limit, step.name, d, req.Slot.Decision)
					}
					if got := redistest.ScriptCalls(t, client); got != 1 {
						t.Errorf("%s: %s: the server has run %d scripts, want 1", limit, step.name, got)
					}
				}
			}
		})
	}
}

// TestSlotUnderAChangedLimit has the store decide the units itself: a caller whose units are
// denied holds no slot, unless it held one before.
func TestSlotUnderAChangedLimit(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := open(t, redistest.Shared(t, b), redisstore.Options{Timeout: testkit.Ceiling})
			old, changed := testkit.Plan(t, "s", "x: 1/day"), testkit.Plan(t, "s", "x: 2/366day fixed-window")
			testkit.Take(t, s, withSlot(old, "k", "a", 3))
			if d := testkit.Take(t, s, withSlot(changed, "k", "a", 3)); !d.Allowed {
				t.Fatalf("one of two: got %+v", d)
			}
			for _, owner := range []string{"a", "b"} {
				req := withSlot(changed, "k", owner, 3)
				req.Cost = 2
				if d := testkit.Take(t, s, req); d.Allowed || req.Slot.Decision != (sluice.SlotDecision{}) {
					t.Errorf("more units than there are for %s: got %+v with %+v", owner, d, req.Slot.Decision)
				}
			}
			look := withSlot(changed, "k", "", 3).Slot.SlotRequest
			look.Op = sluice.SlotPeek
			if d, err := s.Slot(t.Context(), look); err != nil || d.Held != 1 {
				t.Errorf("got %+v, %v, want the slot of a alone", d, err)
			}
		})
	}
}
