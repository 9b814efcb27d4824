// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
)

func (c *compiler) tiers(r *rule, l *CompiledLevel, at place, scope string) {
	t := l.Tiers
	if t == nil {
		return
	}
	l.tierPart = c.part(r, at.in("Tiers").in("By"), t.By)
	if n := len(t.Limits) + len(t.Unlimited); n == 0 || n > maxListed {
		c.fault(at.in("Tiers"), "%d tiers; name at least one", n)
	}
	l.ByTier = make(map[string]*Set, len(t.Limits)+len(t.Unlimited))
	for _, value := range slices.Concat(slices.Sorted(maps.Keys(t.Limits)), t.Unlimited) {
		if value == "" {
			c.fault(at.in("Tiers"), "a tier without a name; requests without one get the rule's own limits")
		}
		here := at.in("Tiers").in("Limits").key(value)
		if as, err := l.tierPart.written(value); err != nil {
			c.fault(here, "%v: %w", t.By, err)
		} else if as != value {
			c.fault(here, "%v: no request has %q; use %q", t.By, value, as)
		}
		if _, twice := l.ByTier[value]; twice {
			c.fault(here, "the tier has no limits, and is named twice; name it once")
		} else if limits, has := t.Limits[value]; has {
			l.ByTier[value] = c.set(r, here, scope, limits)
			c.leasable(r, here, l.ByTier[value])
		} else {
			l.ByTier[value] = nil
		}
	}
}

// unlimited finds faults of a level without limits of its own.
func (c *compiler) unlimited(l *Level, at place) {
	switch here := at.in("Limits"); {
	case !l.Unlimited:
	case len(l.Limits) > 0:
		c.fault(here, "no limits, and some; leave out one of them")
	case (l.Tiers == nil || len(l.Tiers.Limits) == 0) && l.InFlight != nil:
		c.fault(here, "no limits, and no tier has any; leave them out: in_flight works without limits")
	case l.Tiers == nil || len(l.Tiers.Limits) == 0:
		c.fault(here, "no limits, and no tier has any, so the rule has no effect; set the limits of a tier, or remove the rule")
	}
}
