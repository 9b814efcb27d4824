// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

func TestMissingParts(t *testing.T) {
	tests := map[string]struct {
		missing policy.Missing
		headers map[string][]string
		shadow  bool
		allowed int // of 3
		refused bool
	}{
		"refuse":            {missing: policy.Refuse, refused: true},
		"refuse empty":      {missing: policy.Refuse, headers: map[string][]string{"X-User": {""}}, refused: true},
		"share":             {missing: policy.Share, allowed: 2},
		"skip":              {missing: policy.Skip, allowed: 3},
		"twice, refuse":     {missing: policy.Refuse, headers: map[string][]string{"X-User": {"a", "b"}}, refused: true},
		"twice, skip":       {missing: policy.Skip, headers: map[string][]string{"X-User": {"a", "b"}}, refused: true},
		"too long":          {missing: policy.Skip, headers: map[string][]string{"X-User": {string(make([]byte, bounds.MaxValueBytes+1))}}, refused: true},
		"refuse, in shadow": {missing: policy.Refuse, shadow: true, allowed: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := one("api", by(policy.Header("x-user")), "2/min fixed-window")
			r.Levels[0].Missing, r.Shadow = test.missing, test.shadow
			w := newWorld(t, r)
			allowed := 0
			for range 3 {
				v := w.decide((&policy.Request{Path: "/", Headers: test.headers}).Attributes())
				if (v.Refused != nil) != test.refused {
					t.Fatalf("refused %v", v.Refused)
				}
				if v.Allowed {
					allowed++
				}
			}
			if allowed != test.allowed {
				t.Errorf("%d allowed, want %d", allowed, test.allowed)
			}
			if test.refused && w.store.Calls() != 0 {
				t.Error("the store was asked about a refused request")
			}
		})
	}
}

func TestStoreFailure(t *testing.T) {
	down := errors.New("store is down")
	tests := map[string]struct {
		policies []sluice.Failure
		allowed  bool
		failure  sluice.Failure
	}{
		"open":              {[]sluice.Failure{sluice.FailOpen}, true, sluice.FailOpen},
		"closed":            {[]sluice.Failure{sluice.FailClosed}, false, sluice.FailClosed},
		"local":             {[]sluice.Failure{sluice.FailLocal}, false, sluice.FailLocal},
		"open and closed":   {[]sluice.Failure{sluice.FailOpen, sluice.FailClosed, sluice.FailLocal}, false, sluice.FailClosed},
		"two that are open": {[]sluice.Failure{sluice.FailOpen, sluice.FailOpen}, true, sluice.FailOpen},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var rules []policy.Rule
			for i, f := range test.policies {
				r := one(string(rune('a'+i)), nil, "5/min")
				r.Failure = f
				rules = append(rules, r)
			}
			w := newWorld(t, rules...)
			w.store.Before = testkit.Failing(down).Before
			v := w.decide(from("192.0.2.1"))
			if v.Allowed != test.allowed || v.Failure != test.failure || !errors.Is(v.Err, down) {
				t.Errorf("allowed %v, failure %v, error %v", v.Allowed, v.Failure, v.Err)
			}
			if _, ok := v.Binding(nil); ok {
				t.Error("a limit binds without a decision")
			}
			w.settle(v, policy.Response{})
		})
	}
}

// A batch may fail in part: a failed candidate must not matter, and units charged beside a
// failed request are given back if the failure denies.
func TestPartialFailure(t *testing.T) {
	down := errors.New("store is down")
	failures := one("failures", nil, "2/min fixed-window")
	failures.When, failures.Failure = &policy.When{Status: []policy.Status{policy.Class(4)}}, sluice.FailClosed
	shadow := one("shadow", nil, "3/min fixed-window")
	shadow.Shadow, shadow.Failure = true, sluice.FailClosed
	w := newWorld(t, failures, shadow, one("all", nil, "5/min fixed-window"))
	failing := "shadow"
	w.store.After = func(r sluice.Request, _ sluice.Result) error {
		if r.Plan.Scope() == failing {
			return down
		}
		return nil
	}
	v := w.allow(from("192.0.2.1"))
	for s := range v.Trials() {
		if !errors.Is(s.Err, down) {
			t.Errorf("side error %v", s.Err)
		}
	}
	failing = "failures"
	if v = w.decide(from("192.0.2.1")); v.Allowed || v.Failure != sluice.FailClosed {
		t.Errorf("allowed %v under %v", v.Allowed, v.Failure)
	}
	if got, want := w.remaining("all", ""), []int64{4}; !slices.Equal(got, want) {
		t.Errorf("remaining %v, want %v", got, want)
	}
}

// A token that is not usable refuses the request under every active rule that needs a
// claim, before anything is charged.
func TestUnusableToken(t *testing.T) {
	expired := &policy.TokenError{Problem: "the token has expired"}
	for name, test := range map[string]struct {
		change  func(*policy.Rule)
		refused bool
	}{
		"refuse": {func(r *policy.Rule) { r.Levels[0].By = by(policy.Claim("sub")) }, true},
		"skip":   {func(r *policy.Rule) { r.Levels[0].By, r.Levels[0].Missing = by(policy.Claim("sub")), policy.Skip }, true},
		"share":  {func(r *policy.Rule) { r.Levels[0].By, r.Levels[0].Missing = by(policy.Claim("sub")), policy.Share }, true},
		"tiers": {func(r *policy.Rule) {
			r.Levels[0].Tiers = &policy.Tiers{By: policy.Claim("plan"), Limits: map[string][]policy.Limit{"free": limits("1/min")}}
		}, true},
		"no claim": {func(*policy.Rule) {}, false},
		"shadow":   {func(r *policy.Rule) { r.Levels[0].By, r.Shadow = by(policy.Claim("sub")), true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := one("api", nil, "2/min fixed-window")
			test.change(&r)
			w := newWorld(t, r)
			v := w.decide((&policy.Request{Path: "/", Token: expired}).Attributes())
			if (v.Refused != nil) != test.refused || v.Allowed == test.refused {
				t.Fatalf("allowed %v, refused %v", v.Allowed, v.Refused)
			}
			if test.refused && (!errors.Is(v.Refused, expired) || w.store.Calls() != 0) {
				t.Errorf("%v after %d takes, want %v after none", v.Refused, w.store.Calls(), expired)
			}
		})
	}
}
