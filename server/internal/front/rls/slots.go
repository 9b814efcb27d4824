// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
)

// hold acquires, releases and looks at the slots of owners, in the order of the descriptors. A
// request that is denied acquires none from there on.
func (d *decision) hold(ctx context.Context) error {
	for i := range d.descriptors {
		k := &d.descriptors[i]
		if k.limit == nil || k.limit.Slots.Cap == 0 || k.standing.taken != nil {
			continue
		}
		store, ok := d.Store.(sluice.SlotStore)
		if !ok {
			return sluice.ErrNoSlots
		}
		op := sluice.SlotAcquire
		switch {
		case k.hits == 0:
			op = sluice.SlotPeek
		case k.negative:
			op = sluice.SlotRelease
		case d.denied():
			op = sluice.SlotPeek
		}
		s, err := store.Slot(ctx, k.askSlot(op))
		if err != nil {
			return err
		}
		if k.held(&s); op == sluice.SlotPeek {
			k.hits = 0
		}
	}
	return nil
}

// askSlot returns the request to the store about the descriptor's slot.
func (k *descriptor) askSlot(op sluice.SlotOp) sluice.SlotRequest {
	return sluice.SlotRequest{
		Op: op, Scope: (*config.RLS)(nil).Scope(), Limit: k.limit.Slots, Key: k.key, Owner: k.owner, Cost: max(k.hits, 1),
	}
}

// held sets the standing of the descriptor from that of its slots.
func (k *descriptor) held(s *sluice.SlotDecision) {
	k.standing.taken = &sluice.Outcome{Allowed: s.Allowed, TooLarge: s.TooLarge, Remaining: s.Free, RetryAfter: s.RetryAfter}
}
