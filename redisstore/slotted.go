// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// full is the status of a script that has found no free slot. Only scripts with a slot
// return it.
const full = 4

// slotted decides a request with a slot by one script, at one instant, or else by two
// calls: if the keys are in several hash slots of a Cluster, or if the script leaves the
// units to this process, as swap.go describes.
func (s *Store) slotted(ctx context.Context, c *call, req *sluice.Request) (sluice.Decision, error) {
	slot := &req.Slot.SlotRequest
	req.Slot.Decision = sluice.SlotDecision{}
	key := s.keyer.slots(slot.Scope, slot.Key, slot.Limit.Name)
	if !s.swaps(c) && (!s.cluster || oneSlot(append(slices.Clip(c.tags), key))) {
		if d, decided, err := s.joined(ctx, c, req, key); decided || err != nil {
			return d, err
		}
	}
	return s.parted(ctx, req)
}

// joined decides a request and its slot by one script. If the script cannot decide the
// units, joined reports false and nothing has changed.
func (s *Store) joined(ctx context.Context, c *call, req *sluice.Request, key string) (d sluice.Decision, decided bool, err error) {
	slot, j := &req.Slot.SlotRequest, c.ask(req)
	owner := s.keyer.owner(slot.Owner)
	numbers := string(appendNumbers(nil, slot.Limit.TTL.Microseconds(), slot.Limit.Cap, slot.Cost, sluice.MaxWindow.Microseconds()))
	c.general = true // the scripts for takes alone know no slots
	s.guess(c)
	for range attempts {
		inv := s.invocation(c)
		inv.program = s.programs.of(kindsOf(c.items) | withASlot)
		inv.Keys, inv.Args = append(inv.Keys, key), append(inv.Args, numbers, owner)
		res := s.send(ctx, inv)
		st, reply, err := c.read(&res, 1)
		if err != nil {
			return d, false, err
		}
		switch st {
		case otherWindow: // c.now is the server's time
			continue
		case done, full:
			held, err := heldAt(c.now, slot, owner, reply, len(reply)-1)
			if err != nil {
				return d, false, err
			}
			if st == full {
				req.Slot.Decision = held.decision
				return algo.DenySlot(req, c.now), true, nil
			}
			if err := c.describe(found{list: reply, count: len(c.items)}); err != nil {
				return d, false, err
			}
			c.noteDecided()
			if j.decision.Allowed {
				req.Slot.Decision = held.decision
			}
			return j.decision, true, nil
		default:
			return d, false, nil
		}
	}
	return d, false, errChanging
}

// parted decides the slot, then the units. If the units are denied, or fail, it releases
// the slot or, if the owner had it before, restores the end of its lease. Others may be
// denied the slot in between.
func (s *Store) parted(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	slot := &req.Slot.SlotRequest
	held, err := s.slot(ctx, slot)
	if err != nil {
		return sluice.Decision{}, err
	}
	if !held.decision.Allowed {
		req.Slot.Decision = held.decision
		return algo.DenySlot(req, held.now), nil
	}
	units := *req
	units.Slot = nil
	d, err := s.direct(ctx, s.newCall(&units), &units)
	err = hidden(err)
	switch {
	case err == nil && d.Allowed:
		req.Slot.Decision = held.decision
		return d, nil
	case slot.Op == sluice.SlotPeek:
		return d, err
	}
	back := s.release
	if held.before {
		back = func(ctx context.Context, slot *sluice.SlotRequest) error {
			return s.shorten(ctx, slot, held.until-held.now)
		}
	}
	if given := back(ctx, slot); err == nil {
		err = hidden(given)
	}
	return d, err
}

// shorten makes a renewed lease end in left µs, the time that it had before the renewal. It
// ends later than before by the time since the renewal.
func (s *Store) shorten(ctx context.Context, slot *sluice.SlotRequest, left int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	req := *slot
	req.Op, req.Limit.TTL = sluice.SlotRenew, time.Duration(left)*time.Microsecond
	if _, err := s.slot(ctx, &req); err != nil {
		return fmt.Errorf("put the end of the slot back: %w", err)
	}
	return nil
}

// release gives back a slot that was acquired for a request which was denied, or whose
// caller has left. It runs even if ctx has ended.
func (s *Store) release(ctx context.Context, slot *sluice.SlotRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	req := *slot
	req.Op = sluice.SlotRelease
	if _, err := s.slot(ctx, &req); err != nil {
		return fmt.Errorf("release the slot: %w", err)
	}
	return nil
}
