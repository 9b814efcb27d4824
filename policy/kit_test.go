// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

func compile(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func limits(texts ...string) []policy.Limit {
	var ls []policy.Limit
	for _, text := range texts {
		soft, isSoft := strings.CutPrefix(text, "soft ")
		quota, grace, _ := strings.Cut(soft, " grace ")
		l := policy.Limit{Limit: sluice.MustParseLimit(quota)}
		if isSoft {
			g := sluice.MustParseLimit(grace)
			l.Grace = &g
		}
		ls = append(ls, l)
	}
	return ls
}

// one returns a rule of one level.
func one(name string, by []policy.Part, texts ...string) policy.Rule {
	return policy.Rule{Name: name, Levels: []policy.Level{{By: by, Limits: limits(texts...)}}}
}

func by(parts ...policy.Part) []policy.Part { return parts }

// levelOf returns a level of a rule, or nil if it is missing.
func levelOf(p *policy.Policy, rule, level string) *policy.CompiledLevel {
	if i, ok := p.RuleOf(rule); ok && p.Rules()[i].Name == rule {
		for j := range p.Levels(i) {
			if l := &p.Levels(i)[j]; l.Name == level {
				return l
			}
		}
	}
	return nil
}

// chargeOf returns the charge of a key that has no tier under all limits of a level, or of the
// key's override.
func chargeOf(t testing.TB, p *policy.Policy, rule, level string, values ...string) sluice.Charge {
	t.Helper()
	l, key := levelOf(p, rule, level), ""
	if l == nil || l.Base == nil {
		t.Fatalf("rule %q, level %q has no limits", rule, level)
	}
	if len(l.By) > 0 {
		key, _, _ = l.Key(values)
	}
	set := l.Base
	if i, ok := l.ByKey[key]; ok {
		set = l.ByOverride[i]
	}
	return sluice.Charge{Plan: set.All, Key: key, Cost: 1}
}
