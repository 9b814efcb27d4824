// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestPlanWithoutLimits: requests of a tier without limits pass, also while the store is
// unavailable, and are counted and shown; those of others are denied as before.
func TestPlanWithoutLimits(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	rules := "  - {name: api, by: claim.sub, limits: 1/day fixed-window, failure: closed, tiers: {by: claim.plan, limits: {pro: 2/day, vip: none}}}\n"
	store := "store: {redis: {url: " + redis.URL() + "}}\n"
	s := startWithTokens(t, "", rules+store)
	as := func(claims string) []string {
		return []string{"Authorization", "Bearer " + tokenOf(tokenSecret, claims)}
	}
	vip, pro, ada := as(`{"sub":"vip","plan":"vip"}`), as(`{"sub":"bob","plan":"pro"}`), as(`{"sub":"ada"}`)
	ask := func(header []string, want ...int) {
		t.Helper()
		for i, want := range want {
			got := s.Get(t, "/", header...)
			if fields := got.Header["Ratelimit"]; got.Status != want || got.Status == 200 && (fields == nil) != (&header[0] == &vip[0]) {
				t.Errorf("%s, request %d: got %d with %q, want %d", header[1], i+1, got.Status, fields, want)
			}
		}
	}
	ask(vip, 200, 200, 200, 200)
	ask(pro, 200, 200, 429)
	ask(ada, 200, 429)

	status := servetest.Document[admin.Status](t, s, "/policy")
	if len(status.Rules) != 1 {
		t.Fatalf("status %+v", status)
	}
	if r := status.Rules[0]; r.Unlimited != 4 || r.Allowed != 7 || r.Denied != 2 {
		t.Errorf("status %+v, want 4 unlimited of 7 allowed, 2 denied", r)
	}
	if n := s.Metrics(t)[`sluice_unlimited_requests_total{scope="api"}`]; n != 4 {
		t.Errorf("the metric is %v, want 4", n)
	}
	states := servetest.Document[admin.KeyStates](t, s, "/v1/key?claim.sub=bob")
	if len(states.Keys) != 1 || len(states.Keys[0].Tiers) != 2 {
		t.Fatalf("key: %+v", states)
	}
	k := states.Keys[0]
	if k.Unlimited || len(k.Limits) != 1 || k.Tiers[0].Tier != "pro" || len(k.Tiers[0].Limits) != 1 || k.Tiers[0].Limits[0].Remaining != 0 || !k.Tiers[1].Unlimited || k.Tiers[1].Tier != "vip" {
		t.Errorf("key: %+v", k)
	}
	states = servetest.Document[admin.KeyStates](t, s, "/v1/key?claim.sub=vip&claim.plan=vip")
	if !states.Keys[0].Unlimited || states.Keys[0].Limits != nil {
		t.Errorf("key: %+v", states)
	}
	for _, query := range []string{`{"claim.sub":"vip","claim.plan":"vip"}`, `{"claim.sub":"bob"}`} {
		if got := s.Ask(t, http.MethodPost, "/v1/key/reset", `{"parts":`+query+`,"author":"eve"}`); got.Status != http.StatusOK {
			t.Errorf("reset of %s: %d %s", query, got.Status, got.Body)
		}
	}
	ask(pro, 200, 200, 429)
	s.Override(t, "api", "claim.sub", "vip", "6/day")
	if got := s.Get(t, "/", vip...); got.Status != 200 || got.Header["Ratelimit"] == nil {
		t.Errorf("a vip with an override: %d %v", got.Status, got.Header)
	}

	redis.Kill(t)
	other := as(`{"sub":"other","plan":"vip"}`)
	testkit.Until(t, "the store to be marked down", func() bool {
		s.Want(t, http.StatusServiceUnavailable, "/", as(`{"sub":"cid"}`)...)
		return s.Metrics(t)[`sluice_store_up{store="redis"}`] == 0
	})
	s.Want(t, http.StatusOK, "/", other...)
	if got := servetest.Ready(t, s); got.Status != http.StatusOK {
		t.Errorf("not ready, though some pass: %s", got.Body)
	}
}
