// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// world is a policy on a store. Its clock stands still until the test moves it.
type world struct {
	t     *testing.T
	now   time.Time
	store *testkit.Store
	eval  evaluate.Plain
	had   asked // when asks was called last
}

func newWorld(t *testing.T, rules ...policy.Rule) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	w.store = &testkit.Store{Store: memstore.New(memstore.Options{MaxKeys: 4096, Now: func() time.Time { return w.now }})}
	w.eval = evaluate.Plain{Store: w.store, Now: func() time.Time { return w.now }}
	w.eval.Policy = compile(t, rules...)
	return w
}

func compile(t testing.TB, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) decide(a policy.Attributes) *evaluate.Verdict {
	w.t.Helper()
	v := &evaluate.Verdict{}
	w.eval.Decide(w.t.Context(), a, v)
	return v
}

// allow and deny decide a request and check the result and the limit that denied.
func (w *world) allow(a policy.Attributes) *evaluate.Verdict {
	w.t.Helper()
	v := w.decide(a)
	if !v.Allowed || v.Err != nil {
		w.t.Fatalf("denied: %+v, refused %v, error %v", v.Decision, v.Refused, v.Err)
	}
	return v
}

func (w *world) deny(a policy.Attributes, scope, limit string, retryAfter time.Duration) {
	w.t.Helper()
	v := w.decide(a)
	if v.Allowed || v.Err != nil {
		w.t.Fatalf("allowed, or error %v", v.Err)
	}
	o, ok := v.Binding(nil)
	if !ok {
		w.t.Fatal("a denial without a limit that binds")
	}
	got := strings.TrimSuffix(o.Rule.Name+"/"+o.Level.Name, "/")
	if got != scope || o.Limit.Name != limit || v.Decision.RetryAfter != retryAfter || o.RetryAfter != retryAfter {
		w.t.Fatalf("denied by %s, %s for %v; want %s, %s for %v", got, o.Limit.Name, v.Decision.RetryAfter, scope, limit, retryAfter)
	}
}

func (w *world) settle(v *evaluate.Verdict, r policy.Response) {
	w.t.Helper()
	if err := v.Settle(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

// remaining peeks at the units that a key of a rule has left under each limit.
func (w *world) remaining(rule, level string, values ...string) []int64 {
	w.t.Helper()
	c := chargeOf(w.t, w.eval.Policy, rule, level, values...)
	out := make(sluice.Outcomes, c.Plan.Len())
	if _, err := w.store.Store.Take(w.t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: c, Outcomes: &out}); err != nil {
		w.t.Fatal(err)
	}
	left := make([]int64, len(out))
	for i := range out {
		left[i] = out[i].Remaining
	}
	return left
}

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

func from(address string) policy.Attributes {
	return (&policy.Request{Method: "GET", Path: "/", Client: netip.MustParseAddr(address)}).Attributes()
}

func user(name string) policy.Attributes { return userRequest(name).Attributes() }

func userRequest(name string) *policy.Request {
	return &policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"X-User": {name}}}
}

func rule(name string, m policy.Match) policy.Rule {
	r := one(name, nil, "1/min")
	r.Match = m
	return r
}

// matched returns the names of the rules that match.
func matched(p *policy.Policy, a policy.Attributes) []string {
	var m policy.Matches
	p.Match(a, &m)
	names := []string{}
	for i := range m.Len() {
		names = append(names, p.Rules()[m.At(i)].Name)
	}
	return names
}
