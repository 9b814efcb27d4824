// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// world is a policy on a store whose clock stands until it is moved.
type world struct {
	t     *testing.T
	now   time.Time
	store *testkit.Store
	eval  policy.Evaluator
	had   asked // when asks was called last
}

func newWorld(t *testing.T, rules ...policy.Rule) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	w.store = &testkit.Store{Store: memstore.New(memstore.Options{MaxKeys: 4096, Now: func() time.Time { return w.now }})}
	w.eval = policy.Evaluator{Store: w.store, Now: func() time.Time { return w.now }}
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

func (w *world) decide(a policy.Attributes) *policy.Verdict {
	w.t.Helper()
	v := &policy.Verdict{}
	w.eval.Decide(w.t.Context(), a, v)
	return v
}

// allow and deny decide and check the result, and the limit that denied.
func (w *world) allow(a policy.Attributes) *policy.Verdict {
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
	o, ok := v.Binding()
	if !ok {
		w.t.Fatal("a denial without a limit that binds")
	}
	got := strings.TrimSuffix(o.Rule.Name+"/"+o.Level.Name, "/")
	if got != scope || o.Limit.Name != limit || v.Decision.RetryAfter != retryAfter || o.RetryAfter != retryAfter {
		w.t.Fatalf("denied by %s, %s for %v; want %s, %s for %v", got, o.Limit.Name, v.Decision.RetryAfter, scope, limit, retryAfter)
	}
}

func (w *world) settle(v *policy.Verdict, r policy.Response) {
	w.t.Helper()
	if err := v.Settle(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

// remaining peeks at the units that a key of a rule has left under each limit.
func (w *world) remaining(rule, level string, values ...string) []int64 {
	w.t.Helper()
	c, err := w.eval.Policy.Charge(rule, level, values, "", w.now)
	if err != nil {
		w.t.Fatal(err)
	}
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

func from(address string) *policy.StaticAttributes {
	return &policy.StaticAttributes{RequestMethod: "GET", RequestPath: "/", Address: netip.MustParseAddr(address)}
}

func user(name string) *policy.StaticAttributes {
	return &policy.StaticAttributes{RequestMethod: "GET", RequestPath: "/", Headers: map[string][]string{"X-User": {name}}}
}
