// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/policy"
)

// rule is a rule of a policy with the parts of a decision that it needs.
type rule struct {
	*policy.Rule
	needs  needs
	cost   int64 // of each request, unless needsCost
	levels []level
}

// level is a level of a rule with its limits.
type level struct {
	*policy.CompiledLevel
	rule      *rule
	base      *set // nil if there are no limits, or if requests without a tier have none
	tiers     map[string]*set
	overrides []set // of each of the rule's Overrides
}

// set is a compiled list of limits with their names.
type set struct {
	*policy.Set
	tier string // the tier of these limits, if any
	// counts says that a limit of Take counts denied requests.
	counts bool
	// several says that there is more than one limit, aside from blocks.
	several bool
	needs   needs

	names, namesOver   atomic.Pointer[names] // the limits of Take and Over
	shares, sharesOver sync.Map              // the same for a node's share: int32, the number of nodes, to *names
}

// newRules prepares the rules of a policy.
func newRules(p *policy.Policy) []rule {
	rules := make([]rule, len(p.Rules()))
	for i := range rules {
		r, levels := &rules[i], p.Levels(i)
		r.Rule, r.cost, r.levels = &p.Rules()[i], max(p.Rules()[i].Cost.Units, 1), make([]level, len(levels))
		for j := range levels {
			r.levels[j].rule = r
			r.levels[j].fill(&levels[j])
		}
		r.needed()
	}
	return rules
}

func (l *level) fill(of *policy.CompiledLevel) {
	l.CompiledLevel, l.base = of, newSet(of.Base)
	if len(of.ByTier) > 0 {
		l.tiers = make(map[string]*set, len(of.ByTier))
		for tier, s := range of.ByTier {
			if l.tiers[tier] = newSet(s); s != nil {
				l.tiers[tier].tier = tier
			}
		}
	}
	l.overrides = make([]set, len(of.ByOverride))
	for i, s := range of.ByOverride {
		l.overrides[i].fill(s)
	}
}

// newSet returns a set, nil for nil.
func newSet(of *policy.Set) *set {
	if of == nil {
		return nil
	}
	s := new(set)
	s.fill(of)
	return s
}

func (s *set) fill(of *policy.Set) {
	s.Set = of
	limits := 0
	for i := range of.All.Len() {
		t := of.All.Term(i)
		if i < of.Take.Len() {
			s.counts = s.counts || t.CountDenied || t.Block.For > 0
		}
		if t.Block.For == 0 {
			limits++
		}
	}
	s.several = limits > 1
	if of.Over != nil {
		s.needs |= needsGrace
	}
	if queueing(of.All) > 0 {
		s.needs |= needsDelay
	}
}

// set returns the limits of a key of the i-th rule that matched, nil if it has none. The error
// says why the request cannot be charged: the token that holds its tier is not usable.
func (v *Verdict) set(i int, l *level, key string) (*set, error) {
	if v.evaluator.opts.Overrides != nil || len(l.overrides) > 0 {
		if s, _ := v.override(l, key); s != nil {
			return s, nil
		}
	}
	if l.Tiers == nil {
		return l.base, nil
	}
	tier, err := v.matches.Tier(i, l.CompiledLevel)
	if err != nil {
		return nil, err
	}
	if s, ok := l.tiers[tier]; ok && tier != "" {
		return s, nil
	}
	return l.base, nil
}

// override returns the override that applies to a key and its limits, nil if none does: one of
// Options.Overrides before one of the rule.
func (v *Verdict) override(l *level, key string) (*set, *policy.Override) {
	if o := v.evaluator.opts.Overrides.find(l.Scope, key); o != nil && (o.Override.Expires.IsZero() || o.applies(v.evaluator.opts.Now())) {
		v.needs |= o.set.needs
		return &o.set, &o.Override
	}
	if i, ok := l.ByKey[key]; ok {
		if o := &l.Overrides[i]; o.Expires.IsZero() || v.evaluator.opts.Now().Before(o.Expires) {
			return &l.overrides[i], o
		}
	}
	return nil, nil
}
