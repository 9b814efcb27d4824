// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func overrideOf(key string, limit string) policy.Override {
	o := policy.Override{Key: []string{key}, Reason: "a test", Author: "a test"}
	if limit != "" {
		o.Limits = []policy.Limit{{Limit: sluice.MustParseLimit(limit)}}
	}
	return o
}

// TestOverrides: the limits of a key come from the table, or else from the rule's override, or
// else from its tier. The table outlives the rules: an override whose rule is gone stays.
func TestOverrides(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	rule := one("a", by(policy.Header("X-User")), "1/day fixed-window")
	rule.Levels[0].Overrides = []policy.Override{{Key: []string{"ada"}, Limits: limits("2/day fixed-window"), Reason: "r", Author: "file"}}
	table := new(evaluate.Overrides)
	passed := func(rules ...policy.Rule) (n int) {
		t.Helper()
		e := evaluate.Plain{Policy: compile(t, rules...), Store: memstore.New(memstore.Options{Now: func() time.Time { return now }}), Overrides: table, Now: func() time.Time { return now }}
		for {
			var v evaluate.Verdict
			if e.Decide(t.Context(), user("ada"), &v); !v.Allowed || n == 99 {
				return n
			}
			n++
		}
	}
	put := func(limit string, ends time.Duration) {
		t.Helper()
		o := overrideOf("ada", limit)
		o.Expires = now.Add(ends)
		c, err := compile(t, rule).CompileOverride("a", "", o)
		if err != nil {
			t.Fatal(err)
		}
		table.Put(now, c)
	}
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d requests pass, want %d", what, got, want)
		}
	}
	check("without", passed(rule), 2)
	put("5/day fixed-window", time.Hour)
	check("with an override", passed(rule), 5)
	check("under other rules", passed(one("other", nil, "3/day fixed-window")), 3)
	check("with its rule again", passed(rule), 5)
	simple := one("a", by(policy.Header("X-User")), "1/day fixed-window")
	check("beside no other override", passed(simple), 5)
	now = now.Add(time.Hour)
	check("once expired", passed(rule), 2)
	put("6/day fixed-window", time.Hour)
	if !table.Has("a", "ada") {
		t.Error("it is not in the table")
	}
	table.Put(now, policy.CompiledOverride{Scope: "a", Key: "ada"})
	check("once ended", passed(rule), 2)
	if table.Has("a", "ada") {
		t.Error("it is in the table")
	}
	put("6/day fixed-window", time.Minute)
	now = now.Add(time.Hour)
	table.Put(now, policy.CompiledOverride{Scope: "other", Key: "ada"}) // a key of the same part
	if table.Has("a", "ada") {
		t.Error("an expired override is kept")
	}
}

// TestOverrideNames: two limits of an override have two names, although the rule has one limit.
func TestOverrideNames(t *testing.T) {
	w := newWorld(t, one("a", by(policy.Header("X-User")), "1/day fixed-window"))
	o := overrideOf("ada", "9/min")
	o.Limits = limits("first: 5/min", "second: 9/h")
	c, err := w.eval.Policy.CompileOverride("a", "", o)
	if err != nil {
		t.Fatal(err)
	}
	w.eval.Overrides = new(evaluate.Overrides)
	w.eval.Overrides.Put(w.now, c)
	var names []string
	for o := range w.allow(user("ada")).Outcomes() {
		names = append(names, o.Name())
	}
	for o := range w.allow(user("bob")).Outcomes() {
		names = append(names, o.Name())
	}
	if got, want := strings.Join(names, " "), "a/first a/second a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkOverride changes one of 10,000 overrides.
func BenchmarkOverride(b *testing.B) {
	p := compile(b, one("a", by(policy.Header("X-User")), "1/min"))
	table, all := new(evaluate.Overrides), make([]policy.CompiledOverride, 10_000)
	for i := range all {
		var err error
		if all[i], err = p.CompileOverride("a", "", overrideOf(fmt.Sprint(i), "7/min")); err != nil {
			b.Fatal(err)
		}
	}
	now := time.Now()
	table.Put(now, all...)
	for b.Loop() {
		o, err := p.CompileOverride("a", "", overrideOf("5000", "8/min"))
		if err != nil {
			b.Fatal(err)
		}
		table.Put(now, o)
	}
}

// TestOverrideNeeds: features that only the override's limits need, here a queue and a soft
// limit, work from then on.
func TestOverrideNeeds(t *testing.T) {
	rule := policy.Rule{Name: "a", Levels: []policy.Level{{By: []policy.Part{policy.Header("X-User")}, Limits: limits("1/min")}}}
	base, err := policy.Compile([]policy.Rule{rule})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit string
		check func(v *evaluate.Verdict) bool // of the second request
	}{
		{"1/s leaky-bucket burst 5", func(v *evaluate.Verdict) bool { return v.Allowed && v.Decision.Delay > 0 }},
		{"soft 1/min grace 5/min", func(v *evaluate.Verdict) bool {
			for range v.Warnings() {
				return v.Allowed
			}
			return false
		}},
	} {
		o, err := base.CompileOverride("a", "", policy.Override{Key: []string{"k"}, Reason: "a test", Author: "a test", Limits: limits(c.limit)})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]bool{"k": true, "other": false} {
			table := new(evaluate.Overrides)
			e := evaluate.Plain{Policy: base, Store: memstore.New(memstore.Options{}), Overrides: table}
			a := user(key)
			var v evaluate.Verdict
			table.Put(time.Now(), o)
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

// TestShadowOverrideNames: an override with two limits names them in the same way in the rule
// and in the table.
func TestShadowOverrideNames(t *testing.T) {
	var named []string
	for _, table := range []bool{false, true} {
		r := one("a", by(policy.Header("X-User")), "9/day fixed-window")
		r.Shadow = true
		o := overrideOf("ada", "9/min")
		o.Limits = limits("first: 1/min", "second: 9/h")
		opts := evaluate.Options{Store: memstore.New(memstore.Options{})}
		if table {
			opts.Policy, opts.Overrides = compile(t, r), new(evaluate.Overrides)
			c, err := opts.Policy.CompileOverride("a", "", o)
			if err != nil {
				t.Fatal(err)
			}
			opts.Overrides.Put(time.Now(), c)
		} else {
			r.Levels[0].Overrides = []policy.Override{o}
			opts.Policy = compile(t, r)
		}
		e, err := evaluate.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		var c evaluate.Call
		for range 2 {
			e.Decide(t.Context(), user("ada"), &c)
		}
		named = append(named, c.Violated...)
	}
	if want := []string{"a/first", "a/first"}; !slices.Equal(named, want) {
		t.Errorf("got %q, want %q", named, want)
	}
}

// TestClockOfOverridesAlone: without AfterFunc requests wait by the machine's clock, even if
// overrides expire by another.
func TestClockOfOverridesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Now().Add(time.Hour)
		e, err := evaluate.New(evaluate.Options{
			Store: memstore.New(memstore.Options{}), Now: func() time.Time { return ahead },
			Rules: []policy.Rule{policy.NewRule("a", policy.Header("X-User"), sluice.MustParseLimit("10/s leaky-bucket burst 9"))},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var waits sync.Map
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var c evaluate.Call
				e.Decide(ctx, user("ada"), &c)
				waits.Store(time.Since(began).Round(time.Millisecond), c.Verdict.Passes())
			})
		}
		all.Wait()
		for i := range 4 {
			if passes, _ := waits.Load(time.Duration(i) * 100 * time.Millisecond); passes != true {
				t.Errorf("no request passes after %d00 ms", i)
			}
		}
	})
}
