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

// names are the limits of a plan, or one node's shares of them, by their own names and by those
// that clients know.
type names struct {
	terms []sluice.Term
	named []namedTerm
}

// namedTerm is a limit by the name that clients know.
type namedTerm struct {
	sluice.Term
	alone [1]string // the name, as a list
}

// named returns the limit at a place by the name that clients know.
func (v *Verdict) named(p place) *namedTerm {
	return &v.charges[p.charge].names(v.asks[p.ask].result.Decision.Nodes).named[p.term]
}

// names returns the names of a charge's limits, or of the shares of one of several nodes that
// decided locally. They are made when first needed; their number grows with the number of
// different fleet sizes.
func (c *charge) names(nodes int32) *names {
	known, shares := &c.set.names, &c.set.shares
	if c.over {
		known, shares = &c.set.namesOver, &c.set.sharesOver
	}
	if nodes <= 1 {
		made := known.Load()
		if made == nil {
			if made = c.makeNames(nodes); !known.CompareAndSwap(nil, made) {
				made = known.Load()
			}
		}
		return made
	}
	made, ok := shares.Load(nodes)
	if !ok {
		made, _ = shares.LoadOrStore(nodes, c.makeNames(nodes))
	}
	return made.(*names) //nolint:forcetypeassert // nothing else is ever stored
}

func (c *charge) makeNames(nodes int32) *names {
	made := &names{make([]sluice.Term, c.Plan.Len()), make([]namedTerm, c.Plan.Len())}
	for i := range made.terms {
		t := c.Plan.Term(i)
		if nodes > 1 {
			if share, err := sluice.CompileLimit(c.Plan.Scope(), t.Limit.Share(int(nodes))); err == nil {
				t = share
			}
		}
		name := limitName(c.level.rule.Rule, c.level.Level, c.set.several, t.Name)
		made.terms[i], made.named[i] = *t, namedTerm{Term: *t, alone: [1]string{name}}
		made.named[i].Name = name
	}
	return made
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
