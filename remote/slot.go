// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/caller"
)

// Slot decides req by the store or, if that does not answer in time, by the failure policy of
// its scope: see the package comment. It returns at the deadline at the latest. A release is
// never refused: if it does not reach the store, it is sent on the store's return. The error
// is as Take's, or says that the store is no [sluice.SlotStore]. An owner that has
// released should not acquire again: a late release could end its new slot.
func (s *Store) Slot(ctx context.Context, req sluice.SlotRequest) (d sluice.SlotDecision, err error) {
	if s.slots == nil {
		return d, sluice.ErrNoSlots
	}
	if err := s.ended(ctx); err != nil && (req.Op != sluice.SlotRelease || errors.Is(err, sluice.ErrClosed)) {
		return d, err
	}
	if err := req.Validate(); err != nil {
		return d, err
	}
	if d, ok := s.heldHere(ctx, &req); ok {
		return d, nil
	}
	bounded := s.bound(ctx)
	d, err = s.askSlot(bounded, &req, false)
	end(bounded)
	return s.finishSlot(ctx, &req, d, err)
}

// heldHere answers requests for a slot that a policy granted, and that the store does not
// know of.
func (s *Store) heldHere(ctx context.Context, req *sluice.SlotRequest) (d sluice.SlotDecision, ok bool) {
	switch req.Op {
	case sluice.SlotAcquire:
		s.releases.forget(req)
		return d, false
	case sluice.SlotRelease:
		if s.releases.finish(req) {
			s.wake()
		}
	case sluice.SlotRenew:
	default: // a peek counts the slots of the store
		return d, false
	}
	if !s.local.used.Load() {
		return d, false
	}
	d, err := s.local.slots.Slot(context.WithoutCancel(ctx), *req)
	d.Degraded = true
	return d, err == nil && d.Allowed
}

// finishSlot returns the store's answer or, without one, the policy's, and records a slot that
// the store may have granted anyway.
func (s *Store) finishSlot(ctx context.Context, req *sluice.SlotRequest, d sluice.SlotDecision, err error) (sluice.SlotDecision, error) {
	if err == nil {
		s.counters.decided.Add(1)
		return d, nil
	}
	if storeError(err) == nil {
		return sluice.SlotDecision{}, err
	}
	late, sent, why := unwrap(err)
	given := false
	defer func() { // even if a policy panics
		heard := s.doubt(req, given, sent, late != nil)
		if late != nil {
			late.Keep(heard) // its slot is released by the owner's name
		}
	}()
	switch gone := caller.Left(ctx); {
	case req.Op == sluice.SlotRelease:
		d, err = sluice.SlotDecision{Allowed: true, Degraded: true}, nil
	case gone != nil:
		d, err = sluice.SlotDecision{}, fmt.Errorf("remote: slot %q: %w", req.Scope, gone)
	default:
		d, err = s.degradeSlot(ctx, req, sent, why)
	}
	given = err == nil && d.Allowed
	return d, err
}

// doubt records a slot that the store may hold; given says whether its owner got one. If an
// answer of the store is awaited, the caller must call the result with it.
func (s *Store) doubt(req *sluice.SlotRequest, given, sent, awaited bool) func(sluice.Late) {
	owed := req.Op == sluice.SlotRelease
	if !owed && (req.Op != sluice.SlotAcquire || !sent) {
		return nil
	}
	e := s.releases.put(req, owed || !given, awaited && !owed)
	s.wake()
	return func(sluice.Late) {
		s.releases.heard(e)
		s.wake()
	}
}

// slotPolicy returns the failure policy of slots in a scope.
func (s *Store) slotPolicy(scope string) sluice.Failure {
	if of := s.opts.SlotPolicyOf; of != nil {
		return of(scope)
	}
	return s.opts.Policy
}

// degradeSlot decides a request other than a release by the failure policy.
func (s *Store) degradeSlot(ctx context.Context, req *sluice.SlotRequest, sent bool, why error) (d sluice.SlotDecision, err error) {
	p := s.slotPolicy(req.Scope)
	if !s.local.can(p) {
		return d, s.refuse(why, sent)
	}
	if req.Op == sluice.SlotRenew {
		// The store granted it, and may still hold it: the owner keeps it.
		d = sluice.SlotDecision{Allowed: true}
	} else if d, err = s.local.slot(ctx, req, p); err != nil {
		return d, s.refuse(err, true)
	}
	s.counters.of(p).Add(1)
	d.Degraded = true
	return d, nil
}

// slot grants a slot in this process, under p.
func (l *local) slot(ctx context.Context, req *sluice.SlotRequest, p sluice.Failure) (d sluice.SlotDecision, err error) {
	if l.slots == nil { // and p is FailOpen
		return sluice.SlotDecision{Allowed: true}, nil
	}
	l.used.Store(true)
	d, err = l.slots.Slot(context.WithoutCancel(ctx), l.slotShare(*req, p))
	if err == nil && d.TooLarge && req.Cost <= req.Limit.Cap {
		err = costError(req.Cost, l.nodes())
	}
	if err == nil && p == sluice.FailOpen {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, err
}

// slotShare returns req with the cap of this process under p.
func (l *local) slotShare(req sluice.SlotRequest, p sluice.Failure) sluice.SlotRequest {
	req.Limit.Cap = max(req.Limit.Cap/int64(max(l.nodes(), 1)), 1)
	if p == sluice.FailOpen {
		req.Limit.Cap = bounds.MaxSlots
	}
	return req
}
