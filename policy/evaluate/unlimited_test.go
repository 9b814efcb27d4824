// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func plansOf(level policy.Level) policy.Rule {
	level.By = []policy.Part{policy.Header("User")}
	return policy.Rule{Name: "r", Failure: sluice.FailClosed, Levels: []policy.Level{level}}
}

var oneAMinute = []policy.Limit{{Limit: sluice.PerMinute(1)}}

// TestTierWithoutLimits: clients of such a tier pass without a call of the store; no other
// client does, and no ambiguous value selects the tier.
func TestTierWithoutLimits(t *testing.T) {
	tiers := policy.Tiers{By: policy.Claim("plan"), Limits: map[string][]policy.Limit{"trial": oneAMinute}, Unlimited: []string{"vip"}}
	overridden := []policy.Override{{Key: []string{"eve"}, Limits: oneAMinute, Reason: "abuse", Author: "ops"}}
	rule := plansOf(policy.Level{
		Limits: oneAMinute, Tiers: &tiers, Overrides: overridden,
		Candidates: []policy.Candidate{{Name: "c", Limits: []sluice.Limit{sluice.PerMinute(1)}}},
	})
	open := plansOf(policy.Level{Unlimited: true, Tiers: &tiers, Overrides: overridden})
	claim := func(plan string) policy.Request {
		return policy.Request{Claims: map[string]string{"plan": plan}}
	}
	for _, c := range []struct {
		name      string
		rule      policy.Rule
		user      string
		a         policy.Request
		unlimited bool
		refused   bool
	}{
		{"the tier", rule, "ada", claim("vip"), true, false},
		{"another tier", rule, "ada", claim("trial"), false, false},
		{"an unknown tier", rule, "ada", claim("VIP"), false, false},
		{"no tier", rule, "ada", claim(""), false, false},
		{"no claim", rule, "ada", policy.Request{}, false, false},
		{"a bad token", rule, "ada", policy.Request{Token: &policy.TokenError{Problem: "the token has expired"}}, false, true},
		{"a key with an override", rule, "eve", claim("vip"), false, false},
		{"no tier, where there are no limits", open, "ada", claim(""), true, false},
		{"a tier, where there are no limits", open, "ada", claim("trial"), false, false},
		{"an override, where there are no limits", open, "eve", claim(""), false, false},
		{"a bad token, where there are no limits", open, "ada", policy.Request{Token: &policy.TokenError{Problem: "the token has expired"}}, false, true},
		{"no key, where there are no limits", open, "", claim("vip"), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := policy.Compile([]policy.Rule{c.rule})
			if err != nil {
				t.Fatal(err)
			}
			store := &testkit.Store{Store: memstore.New(memstore.Options{})}
			e := evaluate.Plain{Policy: p, Store: store}
			c.a.Method, c.a.Path, c.a.Headers = "GET", "/", map[string][]string{}
			if c.user != "" {
				c.a.Headers["User"] = []string{c.user}
			}
			var v evaluate.Verdict
			for i := range 3 {
				e.Decide(t.Context(), c.a.Attributes(), &v)
				if v.Allowed != (c.unlimited || i == 0 && !c.refused) || (v.Refused != nil) != c.refused || v.Err != nil {
					t.Errorf("request %d: allowed %v, refused %v, error %v", i+1, v.Allowed, v.Refused, v.Err)
				}
				n := 0
				for _, l := range v.Unlimited {
					if n++; l.Rule.Name != "r" || l.Level != &p.Rules()[0].Levels[0] {
						t.Errorf("unlimited under %v, %v", l.Rule, l)
					}
				}
				if (n == 1) != c.unlimited {
					t.Errorf("request %d: %d levels do not limit it", i+1, n)
				}
				if v.Allowed {
					if err := v.Settle(t.Context(), policy.Response{Status: 200}); err != nil {
						t.Error(err)
					}
				}
			}
			if (c.unlimited || c.refused) != (store.Calls() == 0) {
				t.Errorf("the store was asked %d times", store.Calls())
			}
		})
	}
}

// Requests in flight are limited in every tier, a body of a tier without limits
// is not slowed down, and another level of the rule still limits.
func TestTierWithoutLimitsBeside(t *testing.T) {
	tiers := &policy.Tiers{By: policy.Header("Plan"), Unlimited: []string{"vip"}}
	a := policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"User": {"ada"}, "Plan": {"vip"}}}
	decide := func(rule policy.Rule, n int) *evaluate.Verdict {
		t.Helper()
		p, err := policy.Compile([]policy.Rule{rule})
		if err != nil {
			t.Fatal(err)
		}
		e := evaluate.Plain{Policy: p, Store: memstore.New(memstore.Options{})}
		var v evaluate.Verdict
		for range n {
			v = evaluate.Verdict{}
			e.Decide(t.Context(), a.Attributes(), &v)
		}
		return &v
	}
	inFlight := plansOf(policy.Level{Limits: oneAMinute, Tiers: tiers, InFlight: &sluice.SlotLimit{Cap: 2, TTL: time.Minute}})
	if v := decide(inFlight, 2); !v.Allowed {
		t.Errorf("the second in flight: %+v", v.InFlight)
	}
	if v := decide(inFlight, 3); v.Allowed || v.InFlight == nil {
		t.Error("a third in flight passes")
	}
	shape := plansOf(policy.Level{Limits: []policy.Limit{{Limit: sluice.MustParseLimit("1MB/s burst 1MB")}}, Tiers: tiers})
	shape.Shape, shape.Cost.Of = true, policy.ResponseBytes
	v := decide(shape, 1)
	for _, s := range v.Shapes {
		t.Errorf("slowed down by %v", s.Rule.Name)
	}
	if !v.Allowed {
		t.Error("denied")
	}
	both := plansOf(policy.Level{Name: "user", Limits: oneAMinute, Tiers: tiers})
	both.Levels = append(both.Levels, policy.Level{Name: "all", Limits: []policy.Limit{{Limit: sluice.PerMinute(2)}}})
	if v := decide(both, 3); v.Allowed {
		t.Error("the other level does not limit")
	}
}

func TestUnlimitedFaults(t *testing.T) {
	limits := map[string][]policy.Limit{"pro": oneAMinute}
	ip := policy.IP()
	for _, c := range []struct {
		level policy.Level
		want  string
	}{
		{policy.Level{Unlimited: true}, `rule "r": Levels[0].Limits: no limits, and no tier has any, so the rule has no effect; set the limits of a tier, or remove the rule`},
		{policy.Level{Unlimited: true, Tiers: &policy.Tiers{By: ip, Unlimited: []string{"192.0.2.1"}}}, "so the rule has no effect"},
		{policy.Level{Unlimited: true, Limits: oneAMinute, Tiers: &policy.Tiers{By: policy.Claim("plan"), Limits: limits}}, "no limits, and some; leave out one of them"},
		{policy.Level{Limits: oneAMinute, Tiers: &policy.Tiers{By: policy.Claim("plan")}}, "0 tiers; name at least one"},
		{policy.Level{Limits: oneAMinute, Tiers: &policy.Tiers{By: policy.Claim("plan"), Limits: limits, Unlimited: []string{"pro"}}}, "Levels[0].Tiers.Limits[pro]: the tier has no limits, and is named twice; name it once"},
		{policy.Level{Limits: oneAMinute, Tiers: &policy.Tiers{By: policy.Claim("plan"), Unlimited: []string{""}}}, "a tier without a name"},
		{policy.Level{Limits: oneAMinute, Tiers: &policy.Tiers{By: ip, Unlimited: []string{"home"}}}, `"home" is not an address`},
	} {
		_, err := policy.Compile([]policy.Rule{plansOf(c.level)})
		if faults, ok := errors.AsType[policy.RuleErrors](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v (%d faults), want %s", err, len(faults), c.want)
		}
	}
}
