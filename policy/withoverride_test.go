// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
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

// TestWithOverride: a policy changed key by key equals one compiled with the same overrides,
// and earlier policies do not change.
func TestWithOverride(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := twoRules()
		p, err := policy.Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		want := map[[2]string]string{}
		type version struct {
			p    *policy.Policy
			want map[[2]string]string
		}
		versions := []version{{p, map[[2]string]string{}}}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			level, key := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "level"), rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")
			limit := rapid.SampledFrom([]string{"", "7/min", "9/h sliding-log"}).Draw(t, "limit")
			if p, err = p.WithOverride("a", level, overrideOf(key, limit)); err != nil {
				t.Fatal(err)
			}
			if want[[2]string{level, key}] = limit; limit == "" {
				delete(want, [2]string{level, key})
			}
			versions = append(versions, version{p, maps.Clone(want)})
		}
		for _, v := range versions {
			rules := twoRules()
			for at, limit := range v.want {
				l := &rules[0].Levels[strings.Index("xy", at[0])]
				l.Overrides = append(l.Overrides, overrideOf(at[1], limit))
			}
			fresh, err := policy.Compile(rules)
			if err != nil {
				t.Fatal(err)
			}
			for _, level := range []string{"x", "y"} {
				for _, key := range []string{"k", "l", "m", "n"} {
					got, want := charged(v.p, level, key), charged(fresh, level, key)
					if got != want {
						t.Fatalf("level %s, key %s: got %s, want %s", level, key, got, want)
					}
				}
			}
			for j := range rules[0].Levels {
				if got, want := len(v.p.Rule(0).Levels[j].Overrides), len(rules[0].Levels[j].Overrides); got != want {
					t.Fatalf("level %d lists %d overrides, want %d", j, got, want)
				}
			}
		}
	})
}

func charged(p *policy.Policy, level, key string) string {
	c, err := p.Charge("a", level, []string{key}, "", time.Now())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(c.Key, " ", c.Plan.ID)
}

// TestWithOverrideFaults: invalid overrides are errors, as in Compile.
func TestWithOverrideFaults(t *testing.T) {
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
		"no key":    {"a", "x", policy.Override{Key: []string{"k", "l"}}, "2 values"},
		"bytes":     {"a", "x", overrideOf("k", "1MB/min"), "counts bytes"},
		"no author": {"a", "x", policy.Override{Key: []string{"k"}, Limits: overrideOf("", "1/min").Limits, Reason: "r"}, "the author is empty"},
		"in flight": {"b", "", overrideOf("k", "1/min"), "in flight alone"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := p.WithOverride(c.rule, c.level, c.o); err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("got %v, %v, want %q", got, err, c.want)
			}
		})
	}
}

// BenchmarkWithOverride changes one of 10,000 overrides.
func BenchmarkWithOverride(b *testing.B) {
	rules := twoRules()
	for i := range 10_000 {
		rules[0].Levels[0].Overrides = append(rules[0].Levels[0].Overrides, overrideOf(fmt.Sprint(i), "7/min"))
	}
	p, err := policy.Compile(rules)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.WithOverride("a", "x", overrideOf("5000", "8/min")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := policy.Compile(rules); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestWithOverrideNeeds: needs of an override's limits alone, here a queue and a soft limit,
// are met from then on.
func TestWithOverrideNeeds(t *testing.T) {
	rule := policy.Rule{Name: "a", Levels: []policy.Level{{By: []policy.Part{policy.Header("X-User")}, Limits: limits("1/min")}}}
	base, err := policy.Compile([]policy.Rule{rule})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit string
		check func(v *policy.Verdict) bool // of the second request
	}{
		{"1/s leaky-bucket burst 5", func(v *policy.Verdict) bool { return v.Allowed && v.Decision.Delay > 0 }},
		{"soft 1/min grace 5/min", func(v *policy.Verdict) bool {
			for range v.Warnings() {
				return v.Allowed
			}
			return false
		}},
	} {
		p, err := base.WithOverride("a", "", policy.Override{Key: []string{"k"}, Reason: "a test", Author: "a test", Limits: limits(c.limit)})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]bool{"k": true, "other": false} {
			e := policy.Evaluator{Policy: p, Store: memstore.New(memstore.Options{})}
			a := &policy.StaticAttributes{RequestMethod: "GET", RequestPath: "/", Headers: map[string][]string{"X-User": {key}}}
			var v policy.Verdict
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				e.Decide(ctx, a, &v)
				cancel()
			}
			if got := c.check(&v); got != want || !want && v.Allowed {
				t.Errorf("%s, key %s: allowed %v after %v; want it to apply: %v", c.limit, key, v.Allowed, v.Decision.Delay, want)
			}
		}
	}
}
