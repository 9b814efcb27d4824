// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// tiered is a level with three tiers and an override.
func tiered() policy.Level {
	limits := func(n int64) []policy.Limit { return []policy.Limit{{Limit: sluice.PerMinute(n)}} }
	return policy.Level{
		By: []policy.Part{policy.Header("User")}, Limits: limits(60),
		Tiers:     &policy.Tiers{By: policy.Claim("plan"), Limits: map[string][]policy.Limit{"pro": limits(600), "team": limits(900)}, Unlimited: []string{"vip"}},
		Overrides: []policy.Override{{Key: []string{"eve"}, Limits: limits(9000), Reason: "launch", Author: "ops"}},
	}
}

// TestCandidateJudgesByTier: a candidate is evaluated for the requests whose limits it would
// replace, and the explanation agrees.
func TestCandidateJudgesByTier(t *testing.T) {
	one, two := []sluice.Limit{sluice.PerMinute(1)}, []sluice.Limit{sluice.PerMinute(2)}
	level := tiered()
	level.Candidates = []policy.Candidate{
		{Name: "base", Limits: one}, {Name: "both", Limits: one, Tiers: map[string][]sluice.Limit{"pro": two}}, {Name: "pro", Tiers: map[string][]sluice.Limit{"pro": two}},
	}
	p, err := policy.Compile([]policy.Rule{{Name: "r", Levels: []policy.Level{level}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, plan string
		want       string // the candidates that would deny the third request, or allow it
		skipped    string
	}{
		{"ada", "", "base denies, both denies", "pro: it has limits for tiers only"},
		{"bob", "unknown", "base denies, both denies", "pro: it has limits for tiers only"},
		{"cy", "pro", "both denies, pro denies", "base: it has no limits for the tier pro"},
		{"dan", "team", "", "base: it has no limits for the tier team, both: it has no limits for the tier team, pro: it has no limits for the tier team"},
		{"fay", "vip", "", ""},
		{"eve", "", "", "base: the key has an override, both: the key has an override, pro: the key has an override"},
		{"eve", "pro", "", "base: the key has an override, both: the key has an override, pro: the key has an override"},
	} {
		t.Run(fmt.Sprint(c.user, c.plan), func(t *testing.T) {
			e := evaluate.Plain{Policy: p, Store: memstore.New(memstore.Options{})}
			a := (&policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"User": {c.user}}, Claims: map[string]string{"plan": c.plan}}).Attributes()
			var v evaluate.Verdict
			for range 2 {
				e.Decide(t.Context(), a, &v)
			}
			x, err := e.Explain(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			var explained, skipped []string
			for _, k := range x.Rules[0].Levels[0].Candidates {
				if k.Skipped != "" {
					skipped = append(skipped, k.Name+": "+k.Skipped)
				} else {
					explained = append(explained, k.Name+" "+does(k.Allowed))
				}
			}
			e.Decide(t.Context(), a, &v)
			var got []string
			for s := range v.Trials() {
				got = append(got, s.Candidate.Name+" "+does(s.Allowed))
			}
			if got := strings.Join(got, ", "); got != c.want || !v.Allowed {
				t.Errorf("evaluated %q, want %q; allowed %v", got, c.want, v.Allowed)
			}
			if !slices.Equal(explained, got) || strings.Join(skipped, ", ") != c.skipped {
				t.Errorf("explained %q, skipped %q", explained, skipped)
			}
		})
	}
}

func does(allowed bool) string {
	if allowed {
		return "allows"
	}
	return "denies"
}

// TestCandidateFaults: a candidate that would never be evaluated is a fault.
func TestCandidateFaults(t *testing.T) {
	one := []sluice.Limit{sluice.PerMinute(1)}
	for _, c := range []struct {
		name   string
		change func(l *policy.Level)
		of     policy.Candidate
		want   string
	}{
		{"nothing", nil, policy.Candidate{}, "Candidates[0].Limits: no limit"},
		{"an unknown tier", nil, policy.Candidate{Tiers: map[string][]sluice.Limit{"free": one}}, `Candidates[0].Tiers[free]: "free" is no tier with limits here; use one of pro, team`},
		{"a tier without limits", nil, policy.Candidate{Tiers: map[string][]sluice.Limit{"vip": one}}, `"vip" is no tier with limits here; use one of pro, team`},
		{"no tiers", func(l *policy.Level) { l.Tiers = nil }, policy.Candidate{Tiers: map[string][]sluice.Limit{"pro": one}}, `"pro" is no tier with limits here; leave it out`},
		{"a tier with no limit", nil, policy.Candidate{Tiers: map[string][]sluice.Limit{"pro": nil}}, `Candidates[0].Tiers[pro]: no limit`},
		{"in place of no limits", func(l *policy.Level) { l.Limits, l.Unlimited = nil, true }, policy.Candidate{Limits: one}, "Candidates[0].Limits: would stand in place of limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := tiered()
			if c.change != nil {
				c.change(&l)
			}
			c.of.Name = "c"
			l.Candidates = []policy.Candidate{c.of}
			if _, err := policy.Compile([]policy.Rule{{Name: "r", Levels: []policy.Level{l}}}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
