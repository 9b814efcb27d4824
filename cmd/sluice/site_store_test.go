// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/sluicegate/sluice/internal/redistest"
)

// TestSitesShareAStore: gateways whose files name one store share the budgets,
// slots in flight included, and each rule goes on by itself when it is gone.
func TestSitesShareAStore(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf(`
upstream: %q
store: {redis: {url: "redis://%s", prefix: site}}
rules:
  - {name: shared, match: {path: /shared}, limits: 10/min sliding-log}
  - {name: guarded, match: {path: /guarded}, limits: 1000/min, failure: closed}
  - {name: seat, match: {path: /seat}, by: ip, in_flight: 5}
`, named(t, "up"), server.Addr)
	fleet := []*runningSite{startSite(t, yaml), startSite(t, yaml)}
	passed := 0
	for i := range 30 {
		switch got := fleet[i%2].get(t, "/shared"); got.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	if passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
	for range 7 { // each gives its slot back
		if got := fleet[0].get(t, "/seat"); got.status != 200 {
			t.Errorf("in flight: got %d", got.status)
		}
	}
	if got := fleet[1].get(t, "/guarded"); got.status != 200 {
		t.Errorf("guarded: got %d", got.status)
	}
	at := "--admin=" + fleet[1].admin
	command(t, exitOK, "key", "reset", "--rule=shared", "--author=eve", at)
	// A denial is remembered here for a second at most.
	until(t, "the reset at the other gateway", func() bool { return fleet[0].get(t, "/shared").status == 200 })

	server.Kill(t)
	for _, s := range fleet {
		until(t, "requests under an open rule to pass", func() bool { return s.get(t, "/shared").status == 200 })
		if got := s.get(t, "/guarded"); got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("closed, without the store: got %d", got.status)
		}
		until(t, "the loss to be told", func() bool {
			s.get(t, "/guarded")
			page := fetch(t, http.DefaultClient, s.admin+"/readyz")
			return page.status == 200 && strings.Contains(page.body, "store: down; each rule goes on as its failure says")
		})
	}
}

// TestSiteClaims: budgets and plans follow the claims of a token that is valid,
// and of no other.
func TestSiteClaims(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, fmt.Sprintf(`
upstream: %q
tokens: {hmac_file: %q}
rules:
  - name: user
    by: claim.sub
    limits: 1/min sliding-log
    plans: {by: claim.plan, limits: {pro: 3/min sliding-log}}
`, named(t, "up"), file), stopped)
	token := func(secret, sub, plan string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(secret)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := json.Marshal(map[string]any{"sub": sub, "plan": plan, "exp": fixedClock().Unix() + 60})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	for _, c := range []struct {
		name, token string
		want        []int
	}{
		{"free", token(secret, "ann", "free"), []int{200, 429}},
		{"pro", token(secret, "bob", "pro"), []int{200, 200, 200, 429}},
		{"forged", token(strings.ToUpper(secret), "bob", "pro"), []int{400}},
		{"none", "", []int{400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				if got := s.get(t, "/", "Authorization", c.token); got.status != want {
					t.Errorf("request %d: got %d %s, want %d", i+1, got.status, got.body, want)
				}
			}
		})
	}
}
