// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/rulekit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestExplainEqualsDecide: under any rules, an explanation equals the next decision, and its
// states are those before that decision.
func TestExplainEqualsDecide(t *testing.T) {
	requests := testkit.Steps(5000, 20_000)
	rulekit.Explain(t, func() rulekit.Store {
		now := time.Time{}
		s := memstore.New(memstore.Options{MaxKeys: 1000, Now: func() time.Time { return now }})
		return rulekit.Store{Store: s, Set: func(to time.Time) { now = to }, State: func() string {
			var b bytes.Buffer
			if err := s.Snapshot(&b); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}}
	}, requests, 1)
}

// explain explains a request and checks that the store does not change.
func (w *world) explain(a policy.Attributes) *evaluate.Explanation {
	w.t.Helper()
	e := w.eval
	e.Store = w.store.Store
	x, err := e.Explain(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// TestExplainDifferences: the differences name the parts of a rule's match that differ, but no
// value that the client sent in a header.
func TestExplainDifferences(t *testing.T) {
	w := newWorld(t,
		rule("get", policy.Match{Methods: []string{"GET", "PUT"}}),
		rule("host", policy.Match{Hosts: []string{"api.example", "*.a.example"}, Paths: []string{"/x"}}),
		rule("except", policy.Match{Paths: []string{"/shop/"}, Except: []string{"/shop/health"}}),
		rule("header", policy.Match{Headers: []policy.Field{{Name: "X-Plan", Values: []string{"pro", "team"}}}}),
		rule("there", policy.Match{Headers: []policy.Field{{Name: "X-Debug"}}}),
		rule("absent", policy.Match{Headers: []policy.Field{{Name: "X-Plan", Absent: true}}}),
		rule("query", policy.Match{Queries: []policy.Field{{Name: "format", Values: []string{"csv"}}}}),
		rule("network", policy.Match{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}),
		rule("many", policy.Match{Paths: []string{"/1", "/2", "/3", "/4", "/5", "/6"}}),
		rule("all", policy.Match{}),
	)
	x := w.explain((&policy.Request{
		Method: "POST", Host: "b.example", Path: "/shop/health",
		Headers: map[string][]string{"X-Plan": {"secret"}}, Client: netip.MustParseAddr("192.0.2.1"),
	}).Attributes())
	var got []string
	for _, r := range x.Rules {
		line := r.Name
		for _, d := range r.Differences {
			line += "; " + d
		}
		got = append(got, line)
	}
	want := []string{
		"get; method: POST is none of GET, PUT",
		"host; host: b.example is none of api.example, *.a.example; path: /shop/health is not /x",
		"except; path: /shop/health is excepted by /shop/health",
		"header; header X-Plan: is none of pro, team",
		"there; header X-Debug: is not there, or empty",
		"absent; header X-Plan: must be absent",
		"query; query format: is not csv",
		"network; network: 192.0.2.1 is not in 10.0.0.0/8",
		"many; path: /shop/health is none of /1, /2, /3, /4, and 2 more",
		"all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExplainManyRules: differences are listed for some of many rules that do not match, and
// all are reported not to match.
func TestExplainManyRules(t *testing.T) {
	var rules []policy.Rule
	for i := range 256 + 10 {
		rules = append(rules, rule(fmt.Sprint("r", i), policy.Match{Paths: []string{fmt.Sprint("/x", i)}}))
	}
	x := newWorld(t, append(rules, rule("all", policy.Match{}))...).explain((&policy.Request{Path: "/y", Client: netip.MustParseAddr("192.0.2.1")}).Attributes())
	if len(x.Rules) != 256+1 || x.MoreUnmatched != 10 {
		t.Fatalf("%d rules are explained, and %d more do not match", len(x.Rules), x.MoreUnmatched)
	}
	for i, r := range x.Rules {
		if last := i == 256; r.Matches != last || (len(r.Differences) > 0) == last || last != (r.Name == "all") {
			t.Errorf("%s: matches %v, %v", r.Name, r.Matches, r.Differences)
		}
	}
}

// TestExplainDifferencesAreShort: the differences of a long request do not grow with its
// length.
func TestExplainDifferencesAreShort(t *testing.T) {
	w := newWorld(t, rule("other", policy.Match{Methods: []string{"GET"}, Hosts: []string{"api.example"}, Paths: []string{"/x"}}))
	long := strings.Repeat("é", 1<<17)
	x := w.explain((&policy.Request{Method: long, Host: long, Path: "/" + long, Client: netip.MustParseAddr("192.0.2.1")}).Attributes())
	if got := x.Rules[0].Differences; len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	for _, d := range x.Rules[0].Differences {
		if len(d) > 512 || !strings.Contains(d, "é… (26214") || !utf8.ValidString(d) {
			t.Errorf("%d bytes: %s", len(d), d)
		}
	}
}

// TestExplainVerdicts: the verdicts are those of an evaluator.
func TestExplainVerdicts(t *testing.T) {
	shadow := one("shadow", nil, "1/h")
	shadow.Shadow = true
	w := newWorld(t, one("limit", by(policy.Header("X-User")), "2/h"), shadow)
	evaluator, err := evaluate.New(evaluate.Options{Store: w.store.Store, Policy: w.eval.Policy})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []evaluate.VerdictKind{evaluate.Allowed, evaluate.Allowed, evaluate.Denied, evaluate.Refused} {
		a := user("ada")
		if i == 3 {
			a = (&policy.Request{Path: "/"}).Attributes()
		}
		x := w.explain(a)
		var c evaluate.Call
		evaluator.Decide(t.Context(), a, &c)
		if x.Verdict != c.Verdict.String() || c.Verdict != want || !slices.Equal(x.Violated, c.Violated) || (x.Rule != "") != (c.Rule != nil) || c.Rule != nil && x.Rule != c.Rule.Name {
			t.Errorf("%d: explained %v, %v; decided %v, %v; want %v", i, x.Verdict, x.Violated, c.Verdict, c.Violated, want)
		}
	}
}

// TestExplainNeedsAStoreThatCan: stores that cannot explain are an error.
func TestExplainNeedsAStoreThatCan(t *testing.T) {
	w := newWorld(t, one("limit", nil, "2/h"))
	if _, err := w.eval.Explain(t.Context(), user("ada")); err == nil {
		t.Error("a store that cannot explain has explained")
	}
	w.eval.Store = testkit.Failing(errors.New("never asked"))
	if _, err := w.eval.Explain(t.Context(), user("ada")); err == nil {
		t.Error("a store that cannot explain has explained")
	}
}

// TestJSON: an explanation and an override read back as they were written.
func TestJSON(t *testing.T) {
	graced := limits("5/min")[0]
	graced.Grace = new(sluice.MustParseLimit("9/day sliding-log"))
	o := policy.Override{Key: []string{"ada"}, Limits: []policy.Limit{graced, limits("7/s burst 3")[0]}, Expires: time.Unix(1, 0).UTC(), Reason: "r", Author: "a"}
	trial := one("trial", nil, "1/h")
	trial.Shadow = true
	w := newWorld(t, one("limit", by(policy.Header("X-User")), "2/h sliding-log"), trial, rule("other", policy.Match{Paths: []string{"/x"}}))
	for _, want := range []any{&o, w.explain(user("ada")), w.explain((&policy.Request{Path: "/"}).Attributes())} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
		if err := json.Unmarshal(text, got); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != string(text) { // a limit read has no TokenBucket{}, but nil
			t.Errorf("got  %s, %v\nwant %s", again, err, text)
		}
	}
	if text, err := json.Marshal(graced); err != nil || string(text) != `"soft 5/min token-bucket grace 9/day sliding-log"` { // as under a rule with another
		t.Errorf("a limit without an algorithm: %s, %v", text, err)
	}
	for _, text := range []string{`"soft 5/min"`, `"5/min grace 9/day"`, `"soft 5/min grace many"`, `"many"`} {
		if err := json.Unmarshal([]byte(text), new(policy.Limit)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
