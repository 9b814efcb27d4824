// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

var errLookup = errors.New("the session store is unavailable")

// session is a part made by a function: missing, bad, or unavailable.
var session = policy.Func("session", func(a policy.Attributes) (string, error) {
	switch values := a.Header("Session"); {
	case len(values) == 0:
		return "", nil
	case values[0] == "bad":
		return "", &policy.PartError{Problem: "is not signed"}
	case values[0] == "away":
		return "", errLookup
	default:
		return values[0], nil
	}
})

func TestMadeParts(t *testing.T) {
	user, device := policy.Header("User"), policy.Header("Device")
	for _, c := range []struct {
		name    string
		by      policy.Part
		path    string
		headers map[string][]string
		key     string
		refused string
	}{
		{name: "function", by: session, headers: map[string][]string{"Session": {"s1"}}, key: "s1"},
		{name: "function, missing", by: session, refused: "session is missing"},
		{name: "function, refused", by: session, headers: map[string][]string{"Session": {"bad"}}, refused: "session is not signed"},
		{name: "the first of two", by: policy.First(user, session), headers: map[string][]string{"User": {"u1"}, "Session": {"s1"}}, key: "1:u1"},
		{name: "the second of two", by: policy.First(user, session), headers: map[string][]string{"Session": {"s1"}}, key: "2:s1"},
		{name: "none of two", by: policy.First(user, session), refused: "header.User or session is missing"},
		{name: "the first is bad", by: policy.First(session, user), headers: map[string][]string{"User": {"u1"}, "Session": {"bad"}}, refused: "session is not signed"},
		{name: "all", by: policy.All(user, device), headers: map[string][]string{"User": {"u|1"}, "Device": {"d"}}, key: "u%7C1|d"},
		{name: "all but one", by: policy.All(user, device), headers: map[string][]string{"User": {"u1"}}, refused: "header.User and header.Device is missing"},
		{name: "all as the first", by: policy.First(policy.All(user, device), session), headers: map[string][]string{"User": {"u1"}, "Session": {"s"}}, key: "2:s"},
		{name: "a segment", by: policy.Segment(2), path: "/users/u%201/cart", key: "u 1"},
		{name: "the last segment", by: policy.Segment(2), path: "/users/u1/", key: "u1"},
		{name: "no such segment", by: policy.Segment(3), path: "/users/u1", refused: "path 3 is missing"},
		{name: "an empty segment", by: policy.Segment(2), path: "/users//u1", refused: "path 2 has an empty segment; send it in its shortest form"},
		{name: "dots behind it", by: policy.Segment(1), path: "/users/u1/%2e%2e", refused: "path 1 has a segment of dots; send it in its shortest form"},
		{name: "an escaped slash", by: policy.Segment(2), path: "/users/a%2Fb", refused: "path 2 has an escaped slash or is not well-formed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := decide(t, policy.Rule{Name: "r", Levels: []policy.Level{{By: []policy.Part{c.by}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}},
				(&policy.Request{Method: "GET", Path: c.path + map[bool]string{true: "/"}[c.path == ""], Headers: c.headers}).Attributes())
			if c.refused != "" {
				if v.Allowed || v.Refused == nil || v.Refused.Error() != c.refused {
					t.Fatalf("allowed %v, refused %v, want %q", v.Allowed, v.Refused, c.refused)
				}
				return
			}
			o, ok := v.Binding(nil)
			if !ok || o.Key != c.key {
				t.Errorf("key %q (%v), want %q", o.Key, v.Refused, c.key)
			}
		})
	}
}

func decide(t *testing.T, r policy.Rule, a policy.Attributes) *evaluate.Verdict {
	t.Helper()
	p, err := policy.Compile([]policy.Rule{r})
	if err != nil {
		t.Fatal(err)
	}
	e := evaluate.Plain{Policy: p, Store: memstore.New(memstore.Options{})}
	var v evaluate.Verdict
	e.Decide(t.Context(), a, &v)
	return &v
}

// TestLookupFails: a failing lookup is an outage, to which the rule's failure policy applies.
func TestLookupFails(t *testing.T) {
	for failure, allowed := range map[sluice.Failure]bool{sluice.FailOpen: true, sluice.FailLocal: false, sluice.FailClosed: false} {
		v := decide(t, policy.Rule{
			Name: "r", Failure: failure,
			Levels: []policy.Level{{By: []policy.Part{session}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}},
		}, (&policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"Session": {"away"}}}).Attributes())
		if v.Allowed != allowed || !errors.Is(v.Err, errLookup) || v.Refused != nil {
			t.Errorf("%v: allowed %v, error %v, refused %v", failure, v.Allowed, v.Err, v.Refused)
		}
	}
}

func TestMadePartsThatAreNone(t *testing.T) {
	for _, part := range []policy.Part{policy.First(), policy.All(), policy.Func("", nil), policy.Func("x", nil), {Source: source.Func, Name: "x"}, {Source: source.First}, policy.First(policy.Header("a b"))} {
		_, err := policy.Compile([]policy.Rule{{Name: "r", Levels: []policy.Level{{By: []policy.Part{part}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}})
		if err == nil {
			t.Errorf("%v is no part, and Compile took it", part)
		}
	}
}

func TestCostFunc(t *testing.T) {
	cost := policy.Cost{Func: &policy.CostFunc{
		Before: func(a policy.Attributes) (int64, error) { return a.Length(), nil },
		After:  func(a policy.Attributes, r *policy.Response) int64 { return a.Length() + r.Written },
	}}
	rule := policy.Rule{Name: "r", Cost: cost, Levels: []policy.Level{{Limits: []policy.Limit{{Limit: sluice.MustParseLimit("100/min debt 100")}}}}}
	request := &policy.Request{Method: "GET", Path: "/", Length: 10}
	v := decide(t, rule, request.Attributes())
	if o, _ := v.Binding(nil); !v.Allowed || o.Cost != 10 || !v.Settles() {
		t.Fatalf("allowed %v at %d", v.Allowed, o.Cost)
	}
	if err := v.Settle(t.Context(), policy.Response{Status: 200, Written: 30}); err != nil {
		t.Fatal(err)
	}
	request.Length = -1
	if v := decide(t, rule, request.Attributes()); v.Refused == nil {
		t.Error("a cost below 0 was charged")
	}
}
