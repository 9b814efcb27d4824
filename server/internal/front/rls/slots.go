// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
)

// hold acquires, releases and looks at the slots of owners, in the order of the descriptors. A
// request that is denied acquires none from there on, and those that it has acquired are released.
func (d *decision) hold(ctx context.Context) error {
	for i := range d.descriptors {
		k := &d.descriptors[i]
		if k.limit == nil || k.limit.Slots.Cap == 0 || k.standing.taken != nil {
			continue
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
		if op == sluice.SlotAcquire {
			if err := d.renew(ctx, k); err != nil {
				return err
			}
		}
		s, err := d.askSlot(ctx, k, op)
		if err != nil {
			return err
		}
		if k.held(&s); op == sluice.SlotPeek {
			k.hits = 0
		}
	}
	if !d.denied() {
		return nil
	}
	for i := range d.descriptors {
		k := &d.descriptors[i]
		if !k.fresh || k.standing.taken == nil || !k.standing.taken.Allowed {
			continue
		}
		s, err := d.askSlot(ctx, k, sluice.SlotRelease)
		if err != nil {
			return err
		}
		k.held(&s)
		k.hits = 0
	}
	return nil
}

// renew renews the slot of an owner before it is acquired, and records whether the owner has none
// yet, if the request may be denied afterwards.
func (d *decision) renew(ctx context.Context, k *descriptor) error {
	owners := 0
	for i := range d.descriptors {
		if other := &d.descriptors[i]; other.limit != nil && other.limit.Slots.Cap > 0 {
			owners++
		}
	}
	if owners == 1 && (k != d.slot || len(d.ruled) == 0) {
		return nil
	}
	s, err := d.askSlot(ctx, k, sluice.SlotRenew)
	k.fresh = err == nil && !s.Allowed
	return err
}

// askSlot asks the store about a descriptor's slot.
func (d *decision) askSlot(ctx context.Context, k *descriptor, op sluice.SlotOp) (sluice.SlotDecision, error) {
	store, ok := d.Store.(sluice.SlotStore)
	if !ok {
		return sluice.SlotDecision{}, sluice.ErrNoSlots
	}
	return store.Slot(ctx, k.askSlot(op))
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
