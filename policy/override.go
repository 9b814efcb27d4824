// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
)

// CompiledOverride is an [Override] with its limits as the store takes them.
type CompiledOverride struct {
	Scope    string // of its level
	Key      string // under which its requests are charged, as by [Matches.Key]
	Set      *Set
	Override Override
}

// CompileOverride compiles an override of one key of a rule's level. The rule need not have
// it, and is not changed. The error is that of [Compile] if the override does not fit the
// level.
func (p *Policy) CompileOverride(rule, level string, o Override) (of CompiledOverride, err error) {
	i, ok := p.names[rule]
	if !ok {
		return of, fmt.Errorf("policy: no rule has the name %q", rule)
	}
	r := &p.rules[i]
	j := slices.IndexFunc(r.levels, func(l CompiledLevel) bool { return l.Name == level })
	if j < 0 {
		return of, fmt.Errorf("policy: rule %q has no level %q", rule, level)
	}
	c, l, at := &compiler{number: i, name: rule}, &r.levels[j], in("Levels").item(j)
	if !l.Limited {
		c.fault(at.in("Overrides"), "the level limits requests in flight alone, which an override does not change; leave it out")
		return of, c.faults
	}
	if c.blocks(r, l.Level, at); len(c.faults) == 0 { // blocks are part of each set
		of.Key, of.Set, _ = c.override(r, l, at.in("Overrides"), &o)
	}
	if len(c.faults) > 0 {
		return CompiledOverride{}, c.faults
	}
	of.Scope, of.Override = l.Scope, o
	return of, nil
}
