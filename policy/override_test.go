// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

func overrideOf(key string, limit string) policy.Override {
	o := policy.Override{Key: []string{key}, Reason: "a test", Author: "a test"}
	if limit != "" {
		o.Limits = []policy.Limit{{Limit: sluice.MustParseLimit(limit)}}
	}
	return o
}

func twoRules() []policy.Rule {
	limits := []policy.Limit{{Limit: sluice.MustParseLimit("5/min")}}
	block, err := policy.ParseBlock("10min after 20 denials/min")
	if err != nil {
		panic(err)
	}
	return []policy.Rule{
		{Name: "a", Levels: []policy.Level{
			{Name: "x", By: []policy.Part{policy.Header("X-User")}, Limits: limits, Blocks: []sluice.Limit{block}},
			{Name: "y", By: []policy.Part{policy.Header("X-User")}, Limits: limits},
		}},
		{Name: "b", Levels: []policy.Level{{By: []policy.Part{policy.Header("X-User")}, InFlight: &sluice.SlotLimit{Cap: 3}}}},
	}
}

// TestCompileOverride: an override compiled alone has the plan that it has among the rule's.
func TestCompileOverride(t *testing.T) {
	p := compile(t, twoRules()...)
	for _, limit := range []string{"7/min", "9/h sliding-log"} {
		for i, level := range []string{"x", "y"} {
			rules := twoRules()
			rules[0].Levels[i].Overrides = []policy.Override{overrideOf("l", "3/s"), overrideOf("k", limit)}
			want := levelOf(compile(t, rules...), "a", level)
			got, err := p.CompileOverride("a", level, overrideOf("k", limit))
			if err != nil {
				t.Fatal(err)
			}
			if got.Scope != want.Scope || got.Key != "k" || got.Set.All.ID != want.ByOverride[want.ByKey["k"]].All.ID {
				t.Errorf("%s in level %s: got %v, want %v", limit, level, got.Set.All, want.ByOverride[1].All)
			}
		}
	}
	if n := len(levelOf(p, "a", "x").Overrides); n != 0 {
		t.Errorf("the rule has %d overrides now", n)
	}
}

// TestCompileOverrideFaults: invalid overrides are errors, as in Compile.
func TestCompileOverrideFaults(t *testing.T) {
	p, err := policy.Compile(twoRules())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rule, level string
		o           policy.Override
		want        string
	}{
		"no rule":   {"c", "", overrideOf("k", "1/min"), `no rule has the name "c"`},
		"no level":  {"a", "z", overrideOf("k", "1/min"), `has no level "z"`},
		"no key":    {"a", "x", policy.Override{Key: []string{"k", "l"}, Limits: overrideOf("", "1/min").Limits, Reason: "r", Author: "a"}, "2 values"},
		"bytes":     {"a", "x", overrideOf("k", "1MB/min"), "counts bytes"},
		"no author": {"a", "x", policy.Override{Key: []string{"k"}, Limits: overrideOf("", "1/min").Limits, Reason: "r"}, "the author is empty"},
		"in flight": {"b", "", overrideOf("k", "1/min"), "in flight alone"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := p.CompileOverride(c.rule, c.level, c.o); err == nil || !strings.Contains(err.Error(), c.want) || got.Set != nil {
				t.Errorf("got %v, %v, want %q", got, err, c.want)
			}
		})
	}
}
