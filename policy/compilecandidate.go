// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

func (c *compiler) candidates(r *rule, l *CompiledLevel, at place, scope string) {
	if len(l.Candidates) > bounds.MaxLevels {
		c.fault(at.in("Candidates"), "%d candidates; a level has at most %d", len(l.Candidates), bounds.MaxLevels)
	}
	for i := range l.Candidates {
		source, here := &l.Candidates[i], at.in("Candidates").item(i)
		if !bounds.ValidName(source.Name) {
			c.fault(here.in("Name"), "%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", source.Name)
		}
		for j := range l.Candidates[:i] {
			if l.Candidates[j].Name == source.Name {
				c.fault(here.in("Name"), "%q is the name of candidate %d, too; choose another", source.Name, j+1)
			}
		}
		plans := make(map[*Set]*sluice.Plan, 1+len(source.Tiers))
		scope := scope + "+" + source.Name
		if len(source.Limits) > 0 || len(source.Tiers) == 0 {
			if l.Unlimited {
				c.fault(here.in("Limits"), "would stand in place of limits that the level does not have; write limits of tiers")
			}
			c.try(r, here.in("Limits"), scope, plans, l.Base, source.Limits)
		}
		for _, tier := range slices.Sorted(maps.Keys(source.Tiers)) {
			here := here.in("Tiers").key(tier)
			if l.Tiers == nil || l.Tiers.Limits[tier] == nil {
				c.fault(here, "%q is no tier with limits here; %s", tier, l.limitedTiers())
			}
			c.try(r, here, scope, plans, l.ByTier[tier], source.Tiers[tier])
		}
		l.ByCandidate = append(l.ByCandidate, plans)
	}
}

// try compiles the limits of a candidate that are evaluated beside a set.
func (c *compiler) try(r *rule, at place, scope string, plans map[*Set]*sluice.Plan, beside *Set, limits []sluice.Limit) {
	hard := make([]Limit, len(limits))
	for j := range hard {
		hard[j].Limit = limits[j]
	}
	if s := c.set(r, at, scope, hard); s != nil && beside != nil {
		plans[beside] = s.Take
	}
}

// limitedTiers returns which tiers a candidate may name.
func (l *CompiledLevel) limitedTiers() string {
	if l.Tiers == nil || len(l.Tiers.Limits) == 0 {
		return "leave it out"
	}
	return "use one of " + strings.Join(slices.Sorted(maps.Keys(l.Tiers.Limits)), ", ")
}
