// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"

	"github.com/sluicegate/sluice"
)

// dryStore answers an Evaluator as its store would, but changes nothing, so that Explain
// runs the code of Decide.
type dryStore struct {
	store, slots sluice.ExplainStore
	reasons      map[sluice.Charge][]sluice.Reason // of every charge that was explained
}

// Take returns the decision that the store explains. A refund does nothing, as nothing was
// spent.
func (s *dryStore) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if req.Op == sluice.OpRefund {
		return sluice.Decision{}, nil
	}
	e, err := s.store.Explain(ctx, req)
	if err != nil {
		return sluice.Decision{}, err
	}
	at := 0
	for i := range req.Charges() {
		c := req.Nth(i)
		s.reasons[*c] = e.Limits[at : at+c.Plan.Len()]
		at += c.Plan.Len()
	}
	for i := range req.Outcomes.All() {
		(*req.Outcomes)[i] = e.Limits[i].Outcome
	}
	for i := range e.Limits {
		if _, blocks := e.Limits[i].Limit.Algorithm.(sluice.Block); blocks { // a block has no units
			e.Limits[i].Remaining = 0
		}
	}
	return e.Decision, nil
}

// Slot returns the store's explanation of an acquire; other operations do nothing.
func (s *dryStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op != sluice.SlotAcquire {
		return sluice.SlotDecision{}, nil
	}
	return s.slots.ExplainSlot(ctx, req)
}

// inFlight explains the requests in flight of a key, whether they denied or not. It
// returns nil if the level has no such limit, or the store is unavailable.
func (s *dryStore) inFlight(ctx context.Context, r *rule, l *level, key string) *InFlight {
	if l.InFlight == nil {
		return nil
	}
	h := hold{level: l, key: key}
	d, err := s.slots.ExplainSlot(ctx, h.ask(sluice.SlotPeek, ""))
	if err != nil {
		return nil
	}
	return &InFlight{Rule: r.Rule, Level: l.Level, Key: key, Limit: l.Slots, Decision: d}
}

// shaped explains the limits of a rule that shapes, for one byte.
func (s *dryStore) shaped(ctx context.Context, c sluice.Charge) (list []LimitExplanation, err error) {
	e, err := s.store.Explain(ctx, sluice.Request{Op: sluice.OpPeek, Charge: c})
	for _, reason := range e.Limits {
		list = append(list, LimitExplanation{Reason: reason})
	}
	return list, err
}
