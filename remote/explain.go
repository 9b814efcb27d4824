// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/internal/stores"
)

var _ sluice.ExplainStore = (*Store)(nil)

// Explain implements [sluice.ExplainStore]; the wrapped store must implement it, too. A leased
// plan is explained by the units in hand if they cover the cost, else under the stricter
// limits of the lease. A take without units in hand asks for several at once, and may be
// denied until they are available although its own cost would fit. The store explains
// remembered denials. While the store is unavailable the failure policy answers. The call
// counts in no statistics and does not affect the store's health. Under Options.Detach it
// returns when the store does.
func (s *Store) Explain(ctx context.Context, req sluice.Request) (sluice.Explanation, error) {
	if err := s.ended(ctx); err != nil {
		return sluice.Explanation{}, err
	}
	if err := stores.ValidateExplain(&req); err != nil {
		return sluice.Explanation{}, err
	}
	why := errSkipped.Err
	if s.healthy() {
		asked := req
		if err := s.near.useLeasedPlans(&asked); err != nil {
			return sluice.Explanation{}, err
		}
		bounded := s.bound(ctx)
		e, err := stores.Explain(bounded, s.explains, asked)
		end(bounded)
		if err == nil {
			s.near.explain(&req, &e)
			return e, nil
		}
		if stays := s.explainFault(ctx, err); stays != nil {
			return e, stays
		}
		_, _, why = unwrap(err)
	}
	return s.explainAway(ctx, &req, why)
}

// explainFault returns err unless it is an outage.
func (s *Store) explainFault(ctx context.Context, err error) error {
	left := caller.Left(ctx)
	switch {
	case left != nil:
		return fmt.Errorf("remote: explain: %w", left)
	case errors.Is(err, stores.ErrNoExplanation), storeError(err) == nil:
		return err
	}
	return nil
}

// explainAway explains a request by its failure policy.
func (s *Store) explainAway(ctx context.Context, req *sluice.Request, why error) (e sluice.Explanation, err error) {
	p := s.policy(req)
	switch {
	case !s.local.can(p):
		return e, &UnavailableError{RetryAfter: s.opts.Probe, Err: why}
	case p == sluice.FailLocal:
		share, nodes, err := s.local.shared(*req)
		if err == nil {
			e, err = stores.Explain(context.WithoutCancel(ctx), s.local.store, share)
		}
		if err == nil && e.Decision.TooLarge {
			if err := aboveShare(req, nodes); err != nil {
				return e, &UnavailableError{RetryAfter: s.opts.Probe, Err: err}
			}
		}
		e.Decision.Nodes = int32(nodes)
		if err != nil {
			return e, fmt.Errorf("remote: explain: %w", err)
		}
	default:
		e.Decision.Allowed = true
		for i := range req.Charges() {
			c := req.Nth(i)
			for j := range c.Plan.Len() {
				e.Limits = append(e.Limits, sluice.Reason{Limit: c.Plan.Term(j).Limit, Cost: c.Cost, Outcome: sluice.Outcome{Allowed: true}})
			}
		}
	}
	e.Decision.Degraded = true
	for i := range e.Limits {
		r := &e.Limits[i]
		r.Lines = slices.Insert(r.Lines, 0, fmt.Sprintf("the store is unavailable (%v), and failure is %v", why, p))
	}
	return e, nil
}

// explain sets e to the decision by the units in hand, if they cover the cost of req.
func (n *near) explain(req *sluice.Request, e *sluice.Explanation) {
	f, err := n.infoOf(req.Plan)
	if err != nil || !f.leasable(req) {
		return
	}
	l := n.charge(req.Op, f, req.Key)
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	known := l.shard.entries[l.key]
	if known == nil {
		return
	}
	for h := known.leases; h != nil; h = h.next {
		if h.info.id != f.id {
			continue
		}
		mine := *h // a copy: the lease in use does not change
		mine.grants, mine.refunds = slices.Clone(h.grants), slices.Clone(h.refunds)
		in := int64(0)
		for i := range mine.grants {
			in += mine.grants[i].left
		}
		outcomes := make(sluice.Outcomes, len(e.Limits))
		d, ok := mine.take(n.clock(), req.Cost, outcomes)
		if !ok {
			return
		}
		e.Decision = d
		for i := range e.Limits {
			r := &e.Limits[i]
			said := "they cover the cost, without a call of the store"
			if r.Outcome = outcomes[i]; !d.Allowed {
				said = fmt.Sprintf("their turn comes in %v, without a call of the store", d.RetryAfter)
			}
			r.Lines, r.Changes = append(r.Lines, fmt.Sprintf("this node holds %d units in advance: %s", in, said)), nil
		}
		return
	}
}

// ExplainSlot implements [sluice.ExplainStore]. While the store is unavailable the failure
// policy of the scope answers.
func (s *Store) ExplainSlot(ctx context.Context, req sluice.SlotRequest) (d sluice.SlotDecision, err error) {
	if err := s.ended(ctx); err != nil {
		return d, err
	}
	if err := stores.ValidateExplainSlot(&req); err != nil {
		return d, err
	}
	why := errSkipped.Err
	if s.healthy() {
		bounded := s.bound(ctx)
		d, err = stores.ExplainSlot(bounded, s.explains, req)
		end(bounded)
		if err == nil {
			return d, nil
		}
		if stays := s.explainFault(ctx, err); stays != nil {
			return d, stays
		}
		_, _, why = unwrap(err)
	}
	p := s.slotPolicy(req.Scope)
	switch {
	case !s.local.can(p):
		return d, &UnavailableError{RetryAfter: s.opts.Probe, Err: why}
	case p == sluice.FailLocal:
		d, err = stores.ExplainSlot(context.WithoutCancel(ctx), s.local.store, s.local.slotShare(req, p))
	default:
		d.Allowed, err = true, nil
	}
	d.Degraded = true
	return d, err
}
