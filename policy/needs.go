// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

// needs are what a rule may have to do with a request but to charge it, once and a
// fixed cost: a bit for each role that it may have, and those below. They may say too
// much, and never too little. What no rule that matches needs is not looked for.
type needs uint16

const (
	needsDelay    needs = 1 << (iota + asides) // a request may be delayed: by a limit that queues, or up to MaxWait
	needsGrace                                 // a soft limit
	needsSlot                                  // a limit of requests in flight
	needsResponse                              // what is charged depends on the response
	needsTime                                  // and on how long that takes
	needsCost                                  // the cost is not the same for each request
	needsNetwork                               // the rule exempts networks
	needsTrial                                 // candidates
)

// needs returns the need of a rule that has a role.
func (r role) needs() needs { return 1 << r }

// needed finds out what a rule needs, but for what its limits do, which set has found.
func (r *rule) needed() {
	r.needs |= r.role().needs()
	put := func(need needs, on bool) {
		if on {
			r.needs |= need
		}
	}
	put(needsDelay, r.MaxWait > 0)
	put(needsResponse, r.awaits())
	put(needsTime, r.Cost.Of == Milliseconds)
	put(needsCost, r.Cost.Of != Fixed)
	put(needsNetwork, len(r.ExemptNetworks) > 0)
	for i := range r.levels {
		put(needsSlot, r.levels[i].InFlight != nil)
		put(needsTrial, len(r.levels[i].candidates) > 0)
	}
	r.cost = max(r.Cost.Units, 1)
}

// needed finds out what the limits of a set need of a rule.
func (s *set) needed() (all needs) {
	if s.over != nil {
		all |= needsGrace
	}
	if queueing(s.all) > 0 {
		all |= needsDelay
	}
	return all
}
