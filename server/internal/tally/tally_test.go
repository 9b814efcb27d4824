// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/tally"
)

func compiled(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rules:\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy
}

func frontOf(t testing.TB, p *policy.Policy, store sluice.Store) *evaluate.Evaluator {
	t.Helper()
	front, err := evaluate.New(evaluate.Options{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return front
}

// TestTally: each request counts once for its outcome, and counts under a name continue when
// the policy changes.
func TestTally(t *testing.T) {
	const (
		api = "  - {name: api, match: {path: /api}, by: header.X-User, limits: 2/min sliding-log, candidates: {one: 1/min sliding-log}}\n"
		old = "  - {name: old, match: {path: /api}, limits: 100/min}\n"
		dry = "  - {name: dry, match: {path: /api}, limits: 3/min sliding-log, mode: shadow}\n"
		lax = "  - {name: lax, match: {path: /lax}, limits: {soft: 1/min sliding-log, grace: 1/min sliding-log}}\n"
	)
	var counts tally.Tally
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	none, err := policy.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{Now: func() time.Time { return now }})
	front := frontOf(t, none, store)
	follow := func(yaml string) {
		p := compiled(t, yaml)
		front = frontOf(t, p, store)
		counts.Follow(p)
	}
	var call evaluate.Call
	ask := func(path string, users ...string) {
		for _, user := range users {
			a := policy.Request{Method: "GET", Path: path, Headers: map[string][]string{}, Client: netip.MustParseAddr("192.0.2.1")}
			if user != "" {
				a.Headers["X-User"] = []string{user}
			}
			front.Decide(t.Context(), a.Attributes(), &call)
			counts.Count(&call.Event, tally.Cause{})
		}
	}
	expect := func(want map[string]outcome.Counts, evaluated, wouldDeny uint64) {
		t.Helper()
		reports := counts.Reports()
		if len(reports) != len(want) {
			t.Fatalf("got %d rules, want %d", len(reports), len(want))
		}
		for _, r := range reports {
			if r.Counts != want[r.Rule] {
				t.Errorf("%s: got %+v, want %+v", r.Rule, r.Counts, want[r.Rule])
			}
			if r.Rule == "api" && (len(r.Candidates) != 1 || r.Candidates[0].Evaluated != evaluated || r.Candidates[0].WouldDeny != wouldDeny) {
				t.Errorf("candidates %+v, want %d evaluated, %d denied", r.Candidates, evaluated, wouldDeny)
			}
		}
	}

	ask("/api", "ada") // without a policy nothing is counted
	follow(api + old + dry + lax)
	ask("/api", "ada", "ada", "ada", "bob", "")
	ask("/lax", "", "", "")
	expect(map[string]outcome.Counts{
		"api": {Counts: history.Counts{Allowed: 3, Denied: 1, Refused: 1}},
		"old": {Counts: history.Counts{Allowed: 3}},
		"dry": {Counts: history.Counts{WouldDeny: 1}, Evaluated: 4},
		"lax": {Counts: history.Counts{Allowed: 1, Warned: 1, Denied: 1}},
	}, 4, 2)
	top := counts.Top("api", 10)
	if len(top) != 1 || top[0].Total != 1 || len(top[0].Keys) != 1 || top[0].Keys[0].Key != "ada" {
		t.Errorf("denied most: %+v", top)
	}

	follow(dry + api)
	ask("/api", "ada")
	expect(map[string]outcome.Counts{
		"api": {Counts: history.Counts{Allowed: 3, Denied: 2, Refused: 1}},
		"dry": {Counts: history.Counts{WouldDeny: 2}, Evaluated: 5},
	}, 5, 3)
	if top := counts.Top("", 10); len(top) != 1 || top[0].Total != 2 {
		t.Errorf("denied most: %+v", top)
	}
}

// TestShadowKeys: keys of a shadow rule are counted, as denied if the rule would have denied
// them.
func TestShadowKeys(t *testing.T) {
	p := compiled(t, "  - {name: dry, by: header.X-User, limits: 1/min sliding-log, mode: shadow}\n")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var counts tally.Tally
	counts.Follow(p)
	front := frontOf(t, p, memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	for _, user := range []string{"ada", "bob", "ada", "cleo", "ada"} {
		var call evaluate.Call
		a := policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"X-User": {user}}, Client: netip.MustParseAddr("192.0.2.1")}
		front.Decide(t.Context(), a.Attributes(), &call)
		counts.Count(&call.Event, tally.Cause{})
	}
	counts.Tick(now)
	hour, _, ok := counts.Keys("dry")
	if !ok {
		t.Fatal("nothing is kept")
	}
	if got := hour.Count(); got.Seen != 3 || got.Denied != 1 {
		t.Errorf("got %+v; want 3 keys, of which 1 would have been denied", got)
	}
}
