// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

const ownPath = "/.well-known/ratelimit"

// ownAnswer is the answer to a client that asks for its own limits.
type ownAnswer struct {
	Limits []struct {
		Name            string
		Full, Remaining int64
	}
}

// askers returns the limiter of clients that ask for their own limits.
func askers(t *testing.T) *sluice.Limiter {
	t.Helper()
	l, err := sluice.New(memstore.New(memstore.Options{}), "askers", sluice.PerMinute(30))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOwnShowsNoSharedBudget: the remaining units of all clients together, and the names of
// such limits, are not shown.
func TestOwnShowsNoSharedBudget(t *testing.T) {
	yaml := "  - {name: all, limits: 100/min}\n" +
		"  - {name: site, by: host, limits: 100/min}\n" +
		"  - {name: tree, levels: [{name: top, limits: 100/min}, {name: leaf, by: ip, limits: 10/min}]}\n" +
		"  - {name: pair, by: [host, ip], limits: 10/min}\n"
	g := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t)})
	w := answer(g, requestOf(t, "GET", ownPath, ""))
	var got ownAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v of %q", err, w.Body)
	}
	var names []string
	for _, l := range got.Limits {
		names = append(names, l.Name)
	}
	if want := []string{"tree/leaf", "pair"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestOwnSaysWhatALimitHolds: Full is shown where it differs from the quota.
func TestOwnSaysWhatALimitHolds(t *testing.T) {
	yaml := "  - {name: large, by: ip, limits: 100/s burst 1000}\n" +
		"  - {name: small, by: ip, limits: 100/s leaky-bucket}\n" +
		"  - {name: window, by: ip, limits: 100/s fixed-window}\n"
	g := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t)})
	w := answer(g, requestOf(t, "GET", ownPath, ""))
	var got ownAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v of %q", err, w.Body)
	}
	var full, left []int64
	for _, l := range got.Limits {
		full, left = append(full, l.Full), append(left, l.Remaining)
	}
	if !slices.Equal(full, []int64{1000, 1, 0}) || !slices.Equal(left, []int64{1000, 1, 100}) {
		t.Errorf("full %v, left %v; want 1000, 1 and the quota, all of it", full, left)
	}
}

// TestOwnOfBadToken: a client whose token is not usable gets the same answer as at other
// paths, rather than an empty list.
func TestOwnOfBadToken(t *testing.T) {
	yaml := "  - {name: ip, by: ip, limits: 5/min}\n  - {name: user, by: claim.sub, missing: skip, limits: 5/min}\n"
	expired := &policy.TokenError{Problem: "the token has expired"}
	var token error
	claims := func(*http.Request) (func(string) (string, error), error) { return nil, token }
	g := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t), Claims: claims})
	required := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t), Claims: claims, TokenRequired: true})
	for _, c := range []struct {
		name      string
		guard     *guard
		token     error
		challenge string // empty: 200
	}{
		{"no token", g, nil, ""},
		{"no token where one is required", required, nil, "Bearer"},
		{"expired", g, expired, `Bearer error="invalid_token", error_description="the token has expired"`},
	} {
		token = c.token
		for _, path := range []string{"/", ownPath} {
			w := answer(c.guard, requestOf(t, "GET", path, ""))
			want := http.StatusOK
			if c.challenge != "" {
				want = http.StatusUnauthorized
			}
			if got := w.Header().Get("WWW-Authenticate"); w.Code != want || got != c.challenge {
				t.Errorf("%s, %s: got %d, %q, want %d, %q", c.name, path, w.Code, got, want, c.challenge)
			}
		}
	}
}

// A client's own limits are shown under every policy, even one that has other limits, or none,
// for the budget of requests without a part of the key.
func TestOwnOfSharedBudget(t *testing.T) {
	limits := []policy.Limit{{Limit: sluice.PerMinute(1)}}
	p, err := policy.Compile([]policy.Rule{{Name: "api", Levels: []policy.Level{{
		By: []policy.Part{policy.Header("X-User"), policy.IP()}, Missing: policy.Share, Limits: limits,
		Overrides:  []policy.Override{{Key: []string{"", "192.0.2.1"}, Limits: limits, Reason: "r", Author: "a"}},
		ExemptKeys: [][]string{{"", "192.0.2.2"}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	newMiddleware(t, httplimit.Options{Policy: p, Store: memstore.New(memstore.Options{}), OwnLimits: askers(t)})
	if l := p.Rules()[0].Levels[0]; len(l.Overrides) != 1 || len(l.ExemptKeys) != 1 {
		t.Errorf("the policy has changed: %+v", l)
	}
}

// TestOwnOfAnyRule: no valid rule prevents a client's own limits from being shown.
func TestOwnOfAnyRule(t *testing.T) {
	for _, c := range []struct{ name, rule string }{
		{"a number, leased", "by: ip, cost: 3, limits: 1000000/min burst 100000, lease: true"},
		{"request bytes, leased", "by: ip, cost: request-bytes, limits: 100MB/min burst 10MB, lease: true"},
		{"request bytes of a window, leased", "by: ip, cost: request-bytes, limits: 100MB/min sliding-histogram, lease: {ttl: 1s}"},
		{"a header, leased", "by: ip, cost: {request_header: X-C, most: 1000}, limits: 1000000/min burst 100000, lease: true"},
		{"shadow, leased", "mode: shadow, by: ip, cost: request-bytes, limits: 100MB/min burst 10MB, lease: true"},
		{"request bytes, shaped", "by: ip, cost: request-bytes, limits: 100MB/min leaky-bucket burst 10MB, shape: true"},
		{"response bytes, shaped and waiting", "by: ip, cost: response-bytes, limits: 1MB/min burst 1MB, shape: true, max_wait: 10s"},
		{"request bytes that wait", "by: ip, cost: request-bytes, max_wait: 1s, limits: 100MB/min leaky-bucket burst 1MB"},
		{"requests that wait", "by: ip, limits: 1/s leaky-bucket burst 5, max_wait: 2s"},
		{"bytes of a header", "by: ip, cost: {request_header: X-C, most: 1000}, limits: 100MB/min"},
		{"responses held", "by: ip, limits: 10/min, when: {response: [401], charge: first}"},
		{"responses counted", "by: ip, limits: 10/min, when: {response: [401]}"},
		{"a header of the response", "by: ip, cost: {response_header: X-C, most: 1000}, limits: 10/min debt 10"},
		{"a header of the response, held", "by: ip, cost: {response_header: X-C, most: 1000}, hold_for: 1m, limits: 10/min debt 10"},
		{"soft", "by: ip, limits: {soft: 10/min, grace: 5/h}, mode: soft, in_flight: 3"},
		{"soft bytes", "by: ip, cost: response-bytes, limits: {soft: 1MB/min, grace: 5MB/min}, mode: soft"},
		{"in flight only", "by: ip, in_flight: 3"},
		{"candidates", "by: ip, cost: response-bytes, limits: 1MB/min debt 5MB, candidates: {t: 1MB/h}"},
		{"an override", "by: header.X-A, limits: 10/min, overrides: [{key: k, limits: 5/s, reason: r, author: a}], exempt: {keys: [l]}"},
		{"an override, leased", "by: ip, cost: request-bytes, limits: 100MB/min burst 10MB, lease: true, overrides: [{key: 192.0.2.1, limits: 1GB/min burst 10MB, reason: r, author: a}]"},
		{"methods and queries", "match: {method: POST, path: /x/, header: {X-A: '*'}}, by: [ip, method], limits: 10/min"},
		{"plans by a path", "match: {path: '/x/{org}/'}, by: ip, limits: 10/min, tiers: {by: path.org, limits: {p: 5/s}}"},
		{"plans, leased", "by: ip, cost: request-bytes, lease: true, limits: 100MB/min burst 10MB, tiers: {by: header.X-P, limits: {p: 200MB/min burst 10MB}}"},
		{"levels", "match: {path: '/s/{x}/'}, cost: 3, levels: [{name: o, by: path.x, limits: 100/h}, {name: u, by: [path.x, ip], limits: 10/h, in_flight: {cap: 5, ttl: 1m}}]"},
		{"levels of which one is shown", "levels: [{name: o, by: header.Org, missing: skip, limits: 100/h}, {name: u, by: [header.Org, query.q], missing: skip, limits: 10/h}]"},
		{"networks", "match: {network: 10.0.0.0/8}, by: ip, limits: 10/min, exempt: {networks: 10.1.0.0/16}"},
		{"one budget for all", "limits: 10/min"},
	} {
		t.Run(c.name, func(t *testing.T) {
			newGuard(t, "  - {name: a, "+c.rule+"}\n", echo, httplimit.Options{OwnLimits: askers(t)})
		})
	}
}

// TestOwnWithManyOverrides: limits of overrides are shown, too, if the first client's question
// compiles them.
func TestOwnWithManyOverrides(t *testing.T) {
	var overrides []string
	for i := range 1000 {
		overrides = append(overrides, fmt.Sprintf("{key: u%d, limits: 7/min, reason: r, author: a}", i))
	}
	yaml := "  - {name: a, by: header.X-User, limits: 5/min, overrides: [" + strings.Join(overrides, ", ") + "]}\n"
	g := newGuard(t, yaml, echo, httplimit.Options{OwnLimits: askers(t)})
	for user, want := range map[string]string{"u1": `"quota":7,`, "other": `"quota":5,`} {
		r := requestOf(t, "GET", ownPath, "")
		r.Header.Set("X-User", user)
		if w := answer(g, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", user, w.Code, w.Body, want)
		}
	}
}
