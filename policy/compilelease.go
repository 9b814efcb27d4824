// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"

	"github.com/sluicegate/sluice"
)

// lease reports faults in a rule's lease terms, and parts of the rule that would send every
// request to the store, so that no units could be leased.
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

// leasable reports which limits of a set cannot be leased. Limits of overrides and
// candidates need not be leasable.
func (c *compiler) leasable(r *rule, at place, s *Set) {
	if r.Lease == nil || s == nil {
		return
	}
	_, _, err := s.Take.Lease(*r.Lease)
	if err == nil {
		return
	}
	for _, err := range joined(err) {
		if fault, ok := errors.AsType[*sluice.LeaseError](err); ok {
			if isBlock(fault.Limit) {
				continue // reported as another fault
			}
			c.fault(at.item(fault.Index), "cannot be leased: %w", fault.Err)
		} else {
			c.fault(at, "cannot be leased: %w", err)
		}
	}
}
