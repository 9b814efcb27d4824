// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Charges returns the charges of a request under its active rules, for operations other than
// Decide: several requests that are decided all or none, refunds, settlements. Soft limits are
// charged as if they were hard; shadow rules and candidates are omitted. The charges are valid
// until c is used again. A refused request has no charges, and the Event of c has the reason.
// Charges does not call the store.
func (e *Evaluator) Charges(ctx context.Context, a policy.Attributes, c *Call) []sluice.Charge {
	c.begin(e)
	v := &c.evaluated
	v.reset(a, c.Peek)
	e.opts.Policy.Match(a, &v.matches)
	v.collect()
	if v.Refused != nil || v.Failure != sluice.FailOpen {
		v.asks, v.enforced = v.asks[:0], 0
		c.conclude(ctx)
		return nil
	}
	v.asks, v.terms = v.asks[:v.enforced], 0
	for i := range v.asks {
		k := &v.asks[i]
		v.terms = max(v.terms, k.outcomes+k.terms)
		for j := range v.charges[k.first : k.first+k.n] {
			v.flat = append(v.flat, v.charges[k.first+j].Charge)
		}
	}
	v.outcomes = make([]sluice.Outcome, v.terms)
	v.Allowed = true
	c.conclude(ctx)
	return v.flat
}

// Conclude sets the Event of c from the store's result for the charges that
// [Evaluator.Charges] has returned, and the outcomes of all their limits. It reports the Event,
// and an error of the store, as Decide does. A request without charges passes.
func (c *Call) Conclude(ctx context.Context, r sluice.Result, outcomes []sluice.Outcome) {
	e, v := c.evaluated.evaluator, &c.evaluated
	if len(v.asks) > 0 {
		copy(v.outcomes, outcomes)
		v.asks[0].result = r
		v.combine(ctx)
	}
	e.conclude(ctx, v.attributes, v.attributes, c)
	if e.opts.OnDecision != nil {
		e.opts.OnDecision(ctx, v.attributes, &c.Event)
	}
}
