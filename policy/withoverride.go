// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// overrider gives this module access to changes of single overrides.
type overrider = compiled.Overrider[*Policy, Override]

// withOverride implements [compiled.Overrider.WithOverride]. p does not change.
func (p *Policy) withOverride(rule, level string, o Override) (*Policy, error) {
	i, ok := p.names[rule]
	if !ok {
		return nil, fmt.Errorf("policy: no rule has the name %q", rule)
	}
	j := slices.IndexFunc(p.rules[i].Levels, func(l Level) bool { return l.Name == level })
	if j < 0 {
		return nil, fmt.Errorf("policy: rule %q has no level %q", rule, level)
	}
	next := *p
	next.rules = slices.Clone(p.rules)
	r := &next.rules[i]
	r.Levels, r.levels = slices.Clone(r.Levels), slices.Clone(r.levels)
	for k := range r.levels {
		r.levels[k].Level = &r.Levels[k]
	}
	c := &compiler{number: i, name: rule}
	c.override(r, j, o)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	r.simple = r.isSimple()
	next.overrider = compiled.NewOverrider(next.withOverride)
	return &next, nil
}

// override sets an override o in a level of a copied rule, or deletes the override of its key if o
// has no limits.
func (c *compiler) override(r *rule, j int, o Override) {
	l, at := &r.levels[j], in("Levels").item(j)
	if !c.key(l, at.in("Overrides").in("Key"), &o.Key) {
		return
	}
	key, n := encodeKey(o.Key), len(l.Overrides)
	k := n
	if _, there := l.overrides[key]; there {
		k = slices.IndexFunc(l.Overrides, func(other Override) bool { return slices.Equal(other.Key, o.Key) })
	}
	if l.overrides = maps.Clone(l.overrides); l.overrides == nil {
		l.overrides = make(map[string]override)
	}
	switch {
	case len(o.Limits) == 0:
		l.Overrides = slices.Delete(slices.Clone(l.Overrides), k, min(k+1, n))
		delete(l.overrides, key)
		return
	case !l.limited:
		c.fault(at.in("Overrides"), "the level limits requests in flight alone, which an override does not change; leave it out")
		return
	case k == bounds.MaxOverrides:
		c.fault(at.in("Overrides"), "%d overrides; a level has at most %d", k+1, bounds.MaxOverrides)
		return
	case k == n:
		l.Overrides = append(slices.Clip(l.Overrides), o)
	default:
		l.Overrides = slices.Clone(l.Overrides)
		l.Overrides[k] = o
	}
	if c.blocks(r, l.Level, at); len(c.faults) == 0 { // blocks are part of each set
		c.oneOverride(r, l, at, k)
	}
}
