// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/sluicegate/sluice"
)

// Name returns what the limit is called in answers: as its rule is, or
// RULE/LIMIT where a key of the rule is under several, with the level between them
// in a hierarchy. A block is RULE/LIMIT in any case.
func (o *Outcome) Name() string { return limitName(o.Rule, o.Level, o.Limit.Name) }

// Name returns what the limit that denied is called in answers.
func (w *Warning) Name() string { return levelName(w.Rule, w.Level) }

// named returns the limit at a place by the name that clients know. Those of a
// key's limits are made when one is first needed.
func (v *Verdict) named(p place) *namedTerm {
	c := &v.charges[p.charge]
	known := &c.set.named
	if c.over {
		known = &c.set.namedOver
	}
	terms := known.Load()
	if terms == nil {
		made := make([]namedTerm, c.Plan.Len())
		for t := range made {
			made[t].Term = *c.Plan.Term(t)
			made[t].Name = limitName(&c.rule.Rule, c.level.Level, made[t].Name)
			made[t].alone[0] = made[t].Name
		}
		if terms = &made; !known.CompareAndSwap(nil, terms) {
			terms = known.Load()
		}
	}
	return &(*terms)[p.term]
}

// limitName returns a limit's name among all of a policy.
func limitName(r *Rule, l *Level, limit string) string {
	name := levelName(r, l)
	if several(l) || slices.ContainsFunc(l.Blocks, func(b sluice.Limit) bool { return b.Filled().Name == limit }) {
		name += "/" + limit
	}
	return name
}

func levelName(r *Rule, l *Level) string {
	if l.Name == "" {
		return r.Name
	}
	return r.Name + "/" + l.Name
}

// several reports whether a key of the level may be under more than one limit.
func several(l *Level) bool {
	if more(l.Limits) {
		return true
	}
	for i := range l.Overrides {
		if more(l.Overrides[i].Limits) {
			return true
		}
	}
	if l.Tiers != nil {
		for _, limits := range l.Tiers.Limits {
			if more(limits) {
				return true
			}
		}
	}
	return false
}

func more(limits []Limit) bool {
	return len(limits) > 1 || len(limits) == 1 && limits[0].Grace != nil
}
