// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// policy returns the failure policy for the units of req.
func (s *Store) policy(req *sluice.Request) sluice.Failure {
	of := s.opts.PolicyOf
	if of == nil {
		return s.opts.Policy
	}
	p := sluice.FailOpen
	for i := range req.Charges() {
		p = max(p, of(req.Nth(i).Plan))
	}
	return p
}

// refuse returns the error of a request that no policy allows. sent says whether the request
// may have been sent.
func (s *Store) refuse(why error, sent bool) error {
	s.counters.refused.Add(1)
	if !sent {
		why = &sluice.NotSentError{Err: why}
	}
	return &UnavailableError{RetryAfter: s.opts.Probe, Err: why}
}

// degrade decides a request by the failure policies. If the request was sent, the store may
// have charged it. The request passes if its units and its slot do.
func (s *Store) degrade(ctx context.Context, req *sluice.Request, sent bool, why error) (sluice.Decision, error) {
	p, slots := s.policy(req), sluice.FailOpen
	if req.Slot != nil {
		slots = s.slotPolicy(req.Slot.Scope)
	}
	if req.Op == sluice.OpSettle && !sent {
		return sluice.Decision{Allowed: true, Degraded: true, Spent: req.Cost}, nil
	}
	// A reset, an add, a conversion or an extension cannot be done without the store. A settle
	// that may have been done is sent again on the store's return: see finish.
	if req.Op >= sluice.OpReset || !s.local.can(p) || !s.local.can(slots) {
		return sluice.Decision{}, s.refuse(why, sent)
	}
	var d sluice.Decision
	var err error
	if p == sluice.FailLocal && req.Op != sluice.OpRefund {
		d, err = s.decide(ctx, req, slots, sent)
	} else { // the receipt of a refund is the store's, which keeps the units
		given := true
		if req.Slot != nil {
			given, err = s.takeSlot(ctx, req, slots)
		}
		d = letThrough(req, given)
	}
	if err != nil {
		return sluice.Decision{}, s.refuse(err, true)
	}
	s.counters.of(max(p, slots)).Add(1)
	return d, nil
}

// letThrough allows req without counting it, unless it lacks its slot.
func letThrough(req *sluice.Request, slot bool) sluice.Decision {
	now := sluice.InstantOf(time.Now())
	if !slot {
		d := algo.DenySlot(req, int64(now))
		d.Degraded = true
		return d
	}
	d := sluice.Decision{Allowed: true, At: now, Due: now}
	switch req.Op {
	case sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve:
		d.Spent = req.Cost
	default: // spends nothing
	}
	for i := range req.Outcomes.All() {
		(*req.Outcomes)[i] = sluice.Outcome{Allowed: true}
	}
	mark(&d, openMark)
	if req.Hold != nil {
		d.At = 0 // no hold was opened: its settle is charged in full
	}
	return d
}

// takeSlot decides the slot of req in this process, under p.
func (s *Store) takeSlot(ctx context.Context, req *sluice.Request, p sluice.Failure) (given bool, err error) {
	d, err := s.local.slot(ctx, &req.Slot.SlotRequest, p)
	d.Degraded = true
	req.Slot.Decision = d
	return d.Allowed, err
}

// decide decides req in this process, and records its units as owed if the store does not
// know of them.
func (s *Store) decide(ctx context.Context, req *sluice.Request, slots sluice.Failure, sent bool) (sluice.Decision, error) {
	local := *req
	if local.Slot = nil; req.Slot != nil && slots == sluice.FailLocal {
		local.Slot = &sluice.Slot{SlotRequest: s.local.slotShare(req.Slot.SlotRequest, slots)}
	}
	d, err := s.local.take(ctx, local)
	if err != nil {
		return d, err
	}
	switch {
	case local.Slot != nil:
		req.Slot.Decision = local.Slot.Decision
		req.Slot.Decision.Degraded = true
	case req.Slot != nil && d.Allowed: // FailOpen gives every slot
		if _, err = s.takeSlot(ctx, req, slots); err != nil {
			return d, err
		}
	}
	switch {
	case !d.Allowed || sent:
	case req.Hold == nil:
		s.owe(req, d.Spent)
	case req.Op == sluice.OpTake && req.Hold.Settled:
		s.settleLater(req, false)
	default: // a hold is owed when it is settled
	}
	if mark(&d, localMark); sent {
		mark(&d, sentMark)
	}
	return d, nil
}

// owe records the units of an allowed request as owed.
func (s *Store) owe(req *sluice.Request, spent int64) {
	now := time.Now()
	most := int64(sluice.MaxQuota)
	switch req.Op {
	case sluice.OpTake, sluice.OpReserve, sluice.OpCharge:
	case sluice.OpTakeUpTo:
		if most = spent; req.Cost == 0 {
			// The other charges spent one common number, which is not known here: the
			// smallest that any asked for bounds it.
			most = sluice.MaxQuota
			for i := range req.More {
				if c := req.More[i].Cost; c > 0 {
					most = min(most, c)
				}
			}
		}
	default:
		return
	}
	dropped := int64(0)
	for i := range req.Charges() {
		c := req.Nth(i)
		dropped += s.debts.add(c, min(c.Cost, most), now)
	}
	s.counters.dropped.Add(uint64(dropped))
	s.wake()
}

// refund gives back units that a failure policy spent. Units that Local spent under further
// charges stay owed to the store, which errs to denying.
func (s *Store) refund(ctx context.Context, req *sluice.Request, m sluice.Instant) sluice.Decision {
	if m&localMark != 0 && s.local.store != nil { // otherwise another node decided, and only that node could refund
		s.counters.decidedLocally.Add(1)
		if d, err := s.local.take(ctx, *req); err == nil {
			if m&sentMark == 0 {
				s.debts.subtract(&req.Charge, -d.Spent)
			}
			mark(&d, localMark)
			return d
		}
		return letThrough(req, true)
	}
	s.counters.opened.Add(1)
	return letThrough(req, true)
}

// settleHold settles or extends a hold that this process has opened without the store. The
// used units are then owed to the store. If the store may know the hold, too, the request also
// goes to it.
func (s *Store) settleHold(ctx context.Context, req *sluice.Request, m sluice.Instant) sluice.Decision {
	if m&localMark == 0 || s.local.store == nil {
		return letThrough(req, true)
	}
	s.counters.decidedLocally.Add(1)
	d, err := s.local.take(ctx, *req)
	if err != nil {
		return letThrough(req, true)
	}
	if req.Op == sluice.OpSettle && m&sentMark == 0 {
		s.settleLater(req, false)
	}
	mark(&d, localMark)
	return d
}

// forget forgets the units spent by the keys of a reset.
func (s *Store) forget(ctx context.Context, req *sluice.Request) error {
	for i := range req.Charges() {
		s.debts.forget(req.Nth(i))
	}
	_, err := s.local.take(ctx, *req)
	return err
}
