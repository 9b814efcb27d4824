// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// Slot decides req by the store or, if that does not answer in time, by the
// policy of its scope: see the package on what each does. It returns when the
// deadline has passed at the latest. A release is never refused: what does not
// reach the store is sent on its return. The error is as Take's, or says that
// the store is no [sluice.SlotStore]. An owner that has released should not
// acquire again: a release on its way could end what it then holds.
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s.slots == nil {
		return sluice.SlotDecision{}, sluice.ErrNoSlots
	}
	if err := s.ended(ctx); err != nil {
		return sluice.SlotDecision{}, err
	}
	if err := req.Validate(); err != nil {
		return sluice.SlotDecision{}, err
	}
	if d, ok := s.heldHere(ctx, &req); ok {
		return d, nil
	}
	c := s.newSlotCall(&req)
	sent, err := s.send(ctx, c)
	d, err := s.finishSlot(ctx, c, &req, sent, err)
	c.tell([]bool{err == nil && d.Allowed})
	return d, err
}

func (s *Store) newSlotCall(req *sluice.SlotRequest) *call {
	slot := *req // it may be read after the caller has left
	return &call{store: s, slot: &slot, done: make(chan struct{}), fates: make(chan []bool, 1)}
}

// heldHere answers what is about a slot that a policy gave, and that the store
// does not know of.
func (s *Store) heldHere(ctx context.Context, req *sluice.SlotRequest) (d sluice.SlotDecision, ok bool) {
	if req.Op == sluice.SlotAcquire {
		s.releases.forget(req)
		return d, false
	}
	if !s.used.Load() {
		return d, false
	}
	d, err := s.local.slots.Slot(ctx, *req)
	if err != nil || !d.Allowed {
		return d, false
	}
	if req.Op == sluice.SlotRelease && s.releases.doubtful(req) {
		s.wake()
	}
	d.Degraded = true
	return d, true
}

// finishSlot returns the store's answer or, if there is none, the policy's.
func (s *Store) finishSlot(ctx context.Context, c *call, req *sluice.SlotRequest, sent bool, err error) (sluice.SlotDecision, error) {
	if err == nil {
		if err = c.err; err == nil {
			s.counters.decided.Add(1)
			return c.held, nil
		}
		if storeError(err) == nil {
			return sluice.SlotDecision{}, err
		}
	}
	if req.Op == sluice.SlotRelease {
		s.release(req)
		return sluice.SlotDecision{Allowed: true, Degraded: true}, nil
	}
	if cancelled := ctx.Err(); errors.Is(cancelled, context.Canceled) {
		s.undo(req, sent)
		return sluice.SlotDecision{}, fmt.Errorf("failure: slot %q: %w", req.Scope, cancelled)
	}
	return s.degradeSlot(ctx, req, sent, err)
}

// degradeSlot decides an acquire or a renewal that the store has not. If it was
// sent, the store may have granted it.
func (s *Store) degradeSlot(ctx context.Context, req *sluice.SlotRequest, sent bool, why error) (sluice.SlotDecision, error) {
	p := s.opts.Policy
	if of := s.opts.SlotPolicyOf; of != nil {
		p = Combine(of(req.Scope))
	}
	count := &s.counters.opened
	local := *req
	switch p {
	case sluice.FailOpen:
		local.Limit.Cap = sluice.MaxSlots
	case sluice.FailLocal:
		count = &s.counters.localized
		local.Limit.Cap = max(req.Limit.Cap/int64(clampNodes(s.local.nodes())), 1)
	default:
		s.undo(req, sent)
		s.counters.refused.Add(1)
		return sluice.SlotDecision{}, &UnavailableError{RetryAfter: s.opts.Probe, Err: why}
	}
	count.Add(1)
	if req.Op == sluice.SlotRenew {
		// The store gave it, and may yet have it: what runs goes on.
		return sluice.SlotDecision{Allowed: true, Degraded: true}, nil
	}
	s.used.Store(true)
	d, err := s.local.slots.Slot(ctx, local)
	if err != nil {
		s.undo(req, sent)
		return d, err
	}
	d.Degraded = true
	if p == sluice.FailOpen && !d.Allowed {
		d.Allowed, d.RetryAfter = true, 0
	}
	switch {
	case !d.Allowed:
		s.undo(req, sent)
	case sent:
		s.releases.doubt(req)
	}
	return d, nil
}

// degradeWithSlot decides the slot of a request that the store has not, then its
// units. Where these are denied the slot is released.
func (s *Store) degradeWithSlot(ctx context.Context, req sluice.Request, sent bool, why error) (sluice.Decision, error) {
	slot := req.Slot
	held, err := s.degradeSlot(ctx, &slot.SlotRequest, sent, why)
	if err != nil {
		return sluice.Decision{}, err
	}
	slot.Decision = held
	if !held.Allowed {
		d := algo.DenySlot(&req, time.Now().UnixMicro())
		d.Degraded = true
		return d, nil
	}
	req.Slot = nil
	d, err := s.degrade(ctx, &req, sent, why)
	if err == nil && d.Allowed {
		return d, nil
	}
	slot.Decision = sluice.SlotDecision{}
	if release := slot.SlotRequest; release.Op == sluice.SlotAcquire {
		release.Op = sluice.SlotRelease
		_, released := s.Slot(context.WithoutCancel(ctx), release)
		err = errors.Join(err, released)
	}
	return d, err
}

// undo releases what the store may have granted to a request that is refused.
func (s *Store) undo(req *sluice.SlotRequest, sent bool) {
	if sent && req.Op == sluice.SlotAcquire {
		s.release(req)
	}
}

// release has the store told, now or on its return, that an owner holds nothing.
func (s *Store) release(req *sluice.SlotRequest) {
	s.releases.add(req)
	s.wake()
}
