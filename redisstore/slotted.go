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

// full is the status of a script that has found no slot free. Scripts without a slot do not
// have it.
const full = 4

// slotted decides a request with a slot by one script, which decides both at one
// instant, or else by two calls. It takes two where the keys are of several slots
// of a Cluster, and where the script leaves the units to this process: see swap.
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

// joined decides a request and its slot by one script. It reports false, and
// nothing has changed, if that cannot decide the units.
func (s *Store) joined(ctx context.Context, c *call, req *sluice.Request, key string) (d sluice.Decision, decided bool, err error) {
	slot, j := &req.Slot.SlotRequest, c.ask(req)
	owner := s.keyer.owner(slot.Owner)
	numbers := string(appendNumbers(nil, slot.Limit.TTL.Microseconds(), slot.Limit.Cap, slot.Cost, sluice.MaxWindow.Microseconds()))
	c.rare = true // the scripts for takes alone know no slots
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
		case outside: // c.now is the server's now
			continue
		case done, full:
			held, err := heldAt(c.now, slot, owner, reply, reply.Len()-1)
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

// parted decides a slot, then the units. Where these are denied, or fail, it gives
// the slot back, or has it end when it would have. In between others may be denied for it.
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

// shorten has a lease that was renewed end when it would have, in so many µs: all
// but the time since, by which it may be longer.
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

// release gives back a slot that was acquired for a request which was denied, or
// whose caller has left. It is done even if ctx has ended.
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
