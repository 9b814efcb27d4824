// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
)

// policy returns what happens to req if the store does not decide it.
func (s *Store) policy(req *sluice.Request) sluice.Failure {
	of := s.opts.PolicyOf
	if of == nil {
		return s.opts.Policy
	}
	p := sluice.FailOpen
	for i := range req.Charges() {
		p = Combine(p, of(req.Nth(i).Plan))
	}
	return p
}

// degrade decides a request that the store has not. If it was sent, the store
// may have charged it.
func (s *Store) degrade(ctx context.Context, req *sluice.Request, sent bool, why error) (sluice.Decision, error) {
	p := s.policy(req)
	switch {
	case req.Op == sluice.OpReset: // to say that it is done would not be true
	case p == sluice.FailOpen:
		s.counters.opened.Add(1)
		return letThrough(req), nil
	case p == sluice.FailLocal && req.Op == sluice.OpRefund:
		// The receipt is the store's, which has spent the units and keeps them.
		s.counters.localized.Add(1)
		return letThrough(req), nil
	case p == sluice.FailLocal:
		d, err := s.decide(ctx, req, sent)
		if err == nil {
			s.counters.localized.Add(1)
			return d, nil
		}
		why = err
	}
	s.counters.refused.Add(1)
	return sluice.Decision{}, &UnavailableError{RetryAfter: s.opts.Probe, Err: why}
}

// letThrough allows req without counting it.
func letThrough(req *sluice.Request) sluice.Decision {
	now := sluice.InstantOf(time.Now())
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
	return d
}

// decide decides req in this process, and writes down what it spends if the
// store does not know of it.
func (s *Store) decide(ctx context.Context, req *sluice.Request, sent bool) (sluice.Decision, error) {
	s.used.Store(true)
	d, err := s.local.take(ctx, *req)
	if err != nil {
		return d, err
	}
	if d.Allowed && !sent {
		s.owe(req, d.Spent)
	}
	mark(&d, localMark)
	return d, nil
}

// owe writes down what an allowed request has spent.
func (s *Store) owe(req *sluice.Request, spent int64) {
	now := time.Now()
	most := int64(sluice.MaxQuota)
	switch req.Op {
	case sluice.OpTake, sluice.OpReserve, sluice.OpCharge:
	case sluice.OpTakeUpTo:
		if most = spent; req.Cost == 0 {
			// The others got the same number, which only they know: the least
			// that any asked for.
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
		dropped += s.ledger.add(c, min(c.Cost, most), now)
	}
	s.counters.dropped.Add(uint64(dropped))
	s.wake()
}

// refund gives back what was spent by a policy. What Local spent under further
// charges stays owed to the store, which errs to denying.
func (s *Store) refund(ctx context.Context, req *sluice.Request, m sluice.Instant) sluice.Decision {
	if m == localMark {
		s.counters.localized.Add(1)
		if d, err := s.local.take(ctx, *req); err == nil {
			s.ledger.subtract(&req.Charge, -d.Spent)
			mark(&d, localMark)
			return d
		}
		return letThrough(req)
	}
	s.counters.opened.Add(1)
	return letThrough(req)
}

// forget forgets what was spent by the keys of a reset.
func (s *Store) forget(ctx context.Context, req *sluice.Request) error {
	for i := range req.Charges() {
		s.ledger.forget(req.Nth(i))
	}
	_, err := s.local.take(ctx, *req)
	return err
}
