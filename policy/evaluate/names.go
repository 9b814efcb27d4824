// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Name returns the limit's name in answers: the rule's name, or RULE/LIMIT where a key of the
// rule may have several limits, with the level between them in a hierarchy. A block is always
// RULE/LIMIT.
func (o *Outcome) Name() string { return limitName(o.Rule, o.Level, o.several, o.Limit.Name) }

// named returns the limit at a place by the name that clients know. The names of a set are
// made when one is first needed.
func (v *Verdict) named(p place) *namedTerm {
	c := &v.charges[p.charge]
	if nodes := v.asks[p.ask].result.Decision.Nodes; nodes > 1 {
		return &c.shares(nodes).named[p.term]
	}
	known := &c.set.named
	if c.over {
		known = &c.set.namedOver
	}
	terms := known.Load()
	if terms == nil {
		made := make([]namedTerm, c.Plan.Len())
		for t := range made {
			made[t] = c.nameTerm(c.Plan.Term(t))
		}
		if terms = &made; !known.CompareAndSwap(nil, terms) {
			terms = known.Load()
		}
	}
	return &(*terms)[p.term]
}

// nameTerm returns a limit of the charge by the name that clients know.
func (c *charge) nameTerm(t *sluice.Term) (named namedTerm) {
	named.Term = *t
	named.Name = limitName(c.rule.Rule, c.level.Level, c.set.several, t.Name)
	named.alone[0] = named.Name
	return named
}

// shares returns the limits of one of several nodes that decided locally. The map grows with
// the number of different fleet sizes.
func (c *charge) shares(nodes int32) *shares {
	known := &c.set.shares
	if c.over {
		known = &c.set.sharesOver
	}
	if made, ok := known.Load(nodes); ok {
		return made.(*shares) //nolint:forcetypeassert // nothing else is ever stored
	}
	made := &shares{make([]sluice.Term, c.Plan.Len()), make([]namedTerm, c.Plan.Len())}
	for i := range made.terms {
		t := c.Plan.Term(i)
		if share, err := sluice.CompileLimit(c.Plan.Scope(), t.Limit.Share(int(nodes))); err == nil {
			t = share
		}
		made.terms[i], made.named[i] = *t, c.nameTerm(t)
	}
	kept, _ := known.LoadOrStore(nodes, made)
	return kept.(*shares) //nolint:forcetypeassert // nothing else is ever stored
}

// limitName returns the name that distinguishes a limit within a policy; more says that its
// key is under several limits, as that of an override may be.
func limitName(r *policy.Rule, l *policy.Level, more bool, limit string) string {
	name := levelName(r, l)
	if more || several(l) || slices.ContainsFunc(l.Blocks, func(b sluice.Limit) bool { return b.Filled().Name == limit }) {
		name += "/" + limit
	}
	return name
}

func levelName(r *policy.Rule, l *policy.Level) string {
	if l.Name == "" {
		return r.Name
	}
	return r.Name + "/" + l.Name
}

// several reports whether a key of the level may be under more than one limit.
func several(l *policy.Level) bool {
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

func more(limits []policy.Limit) bool {
	return len(limits) > 1 || len(limits) == 1 && limits[0].Grace != nil
}
