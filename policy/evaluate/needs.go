// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import "github.com/sluicegate/sluice/policy"

// needs are the parts of a decision that a rule may require besides a single charge of a
// fixed cost: a bit for each role, and those below. A bit may be set in vain, but never
// missing. Parts that no matching rule needs are skipped.
type needs uint16

const (
	needsDelay    needs = 1 << (iota + asides) // a request may be delayed: by a limit that queues, or up to MaxWait
	needsGrace                                 // a soft limit
	needsSlot                                  // a limit of requests in flight
	needsResponse                              // the charge depends on the response
	needsTime                                  // the charge depends on the time that the request takes
	needsCost                                  // the cost differs between requests
	needsTrial                                 // candidates
	needsHold                                  // the charge is held until the response is known
)

// needs returns the bit of a role.
func (r role) needs() needs { return 1 << r }

// needed sets the needs of a rule, except those of its limits, which set adds.
func (r *rule) needed() {
	r.needs |= r.role().needs()
	put := func(need needs, on bool) {
		if on {
			r.needs |= need
		}
	}
	put(needsDelay, r.MaxWait > 0)
	put(needsResponse, awaits(r.Rule))
	put(needsHold, r.HoldFor > 0 && !r.Shadow)
	put(needsTime, r.Cost.Of == policy.Milliseconds)
	put(needsCost, r.Cost.Of != policy.Fixed || r.Cost.Func != nil)
	for i := range r.levels {
		put(needsSlot, r.levels[i].InFlight != nil)
		put(needsTrial, len(r.levels[i].Candidates) > 0)
		r.levels[i].needed(r)
	}
}

// needed adds the needs of a level's limits.
func (l *level) needed(r *rule) {
	if l.base != nil {
		r.needs |= l.base.needs
	}
	for _, s := range l.tiers {
		if s != nil {
			r.needs |= s.needs
		}
	}
	for i := range l.overrides {
		r.needs |= l.overrides[i].needs
	}
}
