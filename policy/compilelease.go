// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"

	"github.com/sluicegate/sluice"
)

// lease reports what is wrong with a rule's terms, and what of the rule would
// send every request to the store, so that nothing of it could be leased.
func (c *compiler) lease(r *rule) {
	if err := r.Lease.Validate(); err != nil {
		for _, err := range joined(err) {
			c.fault(in("Lease"), "%w", err)
		}
		r.Lease = &sluice.LeaseTerms{} // the limits may be at fault, too
	}
	switch {
	case len(r.Levels) > 1:
		c.fault(in("Lease"), "levels are charged together, which only the store can do; leave out the lease, or make a rule of one level")
	case len(r.Levels) == 1 && len(r.Levels[0].Limits) == 0 && r.Levels[0].InFlight != nil:
		c.fault(in("Lease"), "the rule limits requests in flight only, which are not leased; leave out the lease")
	}
	switch {
	case r.Shape:
		c.fault(in("Lease"), "a rule that shapes has each part wait its turn in the store; leave out the lease")
	case r.When != nil:
		c.fault(in("Lease"), "the rule counts by the response, so every request needs the store; leave out the lease")
	case r.Cost.Of == ResponseBytes || r.Cost.Of == ResponseHeader || r.Cost.Of == Milliseconds:
		c.fault(in("Lease"), "the cost is known after the response, so every request needs the store; leave out the lease, or charge a number or the bytes of requests")
	}
	if r.MaxWait > 0 {
		c.fault(in("Lease"), "requests that may wait are not leased; leave out the lease, or the longest wait")
	}
}

// leasable reports which limits of a set cannot be leased. Those of overrides
// and candidates need not be: see [Rule.Leased].
func (c *compiler) leasable(r *rule, at Place, s *set) {
	if r.Lease == nil || s == nil {
		return
	}
	_, _, err := s.take.Lease(*r.Lease)
	if err == nil {
		return
	}
	for _, err := range joined(err) {
		if fault, ok := errors.AsType[*sluice.LeaseError](err); ok {
			if isBlock(fault.Limit) {
				continue // which is a fault of its own
			}
			c.fault(at.item(fault.Index), "cannot be leased: %w", fault.Err)
		} else {
			c.fault(at, "cannot be leased: %w", err)
		}
	}
}

// Leased returns the terms under which limits of the rule are leased, and false
// if they are not: if the rule has none, or if these are limits of an override
// or a candidate that cannot be. It tries them each time: a store asks once for
// each plan.
func (r *Rule) Leased(plan *sluice.Plan) (terms sluice.LeaseTerms, leased bool) {
	if r.Lease == nil {
		return terms, false
	}
	_, _, err := plan.Lease(*r.Lease)
	return *r.Lease, err == nil
}
