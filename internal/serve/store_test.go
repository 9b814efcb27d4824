// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/sluicegate/sluice/internal/redistest"
)

// TestGatewaysShareAStore: gateways whose files name one store share the budgets,
// slots in flight included, and each rule goes on by itself when it is gone.
func TestGatewaysShareAStore(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q, prefix: site}}
rules:
  - {name: shared, match: {path: /shared}, limits: 10/min sliding-log}
  - {name: guarded, match: {path: /guarded}, limits: 1000/min, failure: closed}
  - {name: seat, match: {path: /seat}, by: ip, in_flight: 5}
`, named(t, "up"), server.URL())
	fleet := []*running{start(t, yaml), start(t, yaml)}
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
	fleet[1].ask(t, http.MethodPost, "/v1/key/reset", `{"rule": "shared", "parts": {}, "author": "eve"}`)
	// A denial is remembered here for a second at most.
	until(t, "the reset at the other gateway", func() bool { return fleet[0].get(t, "/shared").status == 200 })

	server.Kill(t)
	for _, s := range fleet {
		until(t, "requests under an open rule to pass", func() bool { return s.get(t, "/shared").status == 200 })
		if got := s.get(t, "/guarded"); got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("closed, without the store: got %d", got.status)
		}
		until(t, "the loss to be reported", func() bool {
			s.get(t, "/guarded")
			page := fetch(t, http.DefaultClient, s.admin+"/readyz")
			return page.status == 200 && strings.Contains(page.body, "store: down; each rule goes on as its failure says")
		})
	}
}

// signed returns what a request with a token has under Authorization.
func signed(t *testing.T, secret, sub, plan string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(secret)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"sub": sub, "plan": plan, "exp": fixedClock().Unix() + 60})
	if err != nil {
		t.Fatal(err)
	}
	message, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := message.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}

// A slot in flight whose request ends while the store hangs is free when it is
// back, although there was no log line; meanwhile the failure policy of each rule applies.
func TestSlotsInAnOutage(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	arrived, release := make(chan struct{}), make(chan struct{})
	up := backend(t, func(http.ResponseWriter, *http.Request) {
		select {
		case arrived <- struct{}{}:
		case <-release:
		}
		<-release
	})
	s := start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q}}
rules:
  - {name: guarded, match: {path: /guarded}, in_flight: 1, failure: closed}
  - {name: local, match: {path: /local}, in_flight: 1, failure: local}
  - {name: open, match: {path: /open}, in_flight: 1}
`, up, server.URL()))
	got := make(chan answer, 1)
	go func() { got <- s.get(t, "/guarded") }()
	<-arrived
	if a := s.get(t, "/guarded"); a.status != http.StatusTooManyRequests {
		t.Errorf("a second of one: got %d", a.status)
	}
	if err := server.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	close(release)
	if a := <-got; a.status != http.StatusOK {
		t.Errorf("what was in flight: got %d", a.status)
	}
	for _, c := range []struct {
		path string
		want int
	}{{"/guarded", http.StatusServiceUnavailable}, {"/local", http.StatusOK}, {"/local", http.StatusOK}, {"/open", http.StatusOK}} {
		if a := s.get(t, c.path); a.status != c.want {
			t.Errorf("%s while the store hangs: got %d, want %d", c.path, a.status, c.want)
		}
	}
	if err := server.Process().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "the slot to be free", func() bool { return s.get(t, "/guarded").status == http.StatusOK })
	for range 5 { // and it is given back again each time
		if a := s.get(t, "/guarded"); a.status != http.StatusOK {
			t.Errorf("afterwards: got %d", a.status)
		}
	}
}

// The file names servers as --store does: sentinels and a Cluster, too.
func TestStores(t *testing.T) {
	b := redistest.Redis(t)
	for _, c := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"sentinel", func(t *testing.T) string {
			var hosts []string
			for _, s := range redistest.StartSentinel(t, b).Sentinels {
				hosts = append(hosts, s.Addr)
			}
			return "redis-sentinel://" + strings.Join(hosts, ",") + "/" + redistest.MasterSet + redistest.Patient
		}},
		{"cluster", func(t *testing.T) string {
			var hosts []string
			for _, s := range redistest.StartCluster(t, b, 3, false).Masters {
				hosts = append(hosts, s.Addr)
			}
			return "redis-cluster://" + strings.Join(hosts, ",") + redistest.Patient + "&prefix=site"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			yaml := fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\nrules:\n  - {name: shared, by: query.user, limits: 10/h sliding-log}\n",
				named(t, "up"), c.url(t))
			fleet := []*running{start(t, yaml), start(t, yaml)}
			for user := range 5 {
				passed := 0
				for i := range 30 {
					if got := fleet[i%2].get(t, fmt.Sprintf("/?user=%d", user)); got.status == http.StatusOK {
						passed++
					}
				}
				if passed != 10 {
					t.Errorf("user %d: %d passed, want 10", user, passed)
				}
			}
			if page := fetch(t, http.DefaultClient, fleet[0].admin+"/readyz"); !strings.Contains(page.body, "store: up") {
				t.Errorf("readyz: %q", page.body)
			}
		})
	}
}

// TestClaims: budgets and plans follow the claims of a token that is valid,
// and of no other.
func TestClaims(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, fmt.Sprintf(`
upstream: %q
tokens: {hmac_file: %q}
rules:
  - name: user
    by: claim.sub
    limits: 1/min sliding-log
    tiers: {by: claim.plan, limits: {pro: 3/min sliding-log}}
`, named(t, "up"), file), stopped)
	for _, c := range []struct {
		name, token string
		want        []int
	}{
		{"free", signed(t, secret, "ann", "free"), []int{200, 429}},
		{"pro", signed(t, secret, "bob", "pro"), []int{200, 200, 200, 429}},
		{"forged", signed(t, strings.ToUpper(secret), "bob", "pro"), []int{401}},
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

// TestKeysAreReadAgain: a key that changes takes effect without a signal, as does
// the admin's token; one that is no good leaves the one before and says why.
func TestKeysAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	write("secret", first)
	write("admin", "the-first-token-of-all")
	s := start(t, fmt.Sprintf(`
upstream: %q
admin: {address: 127.0.0.1:0, token_file: %q}
tokens: {hmac_file: %q}
rules: [{name: user, by: claim.sub, limits: 1000/min sliding-log}]
`, named(t, "up"), filepath.Join(dir, "admin"), filepath.Join(dir, "secret")), stopped)
	ask := func(secret string) int {
		return s.get(t, "/", "Authorization", signed(t, secret, "ann", "free")).status
	}
	admin := func(token string) int {
		return fetch(t, http.DefaultClient, s.admin+"/policy", "Authorization", "Bearer "+token).status
	}
	if a, b := ask(first), ask(second); a != 200 || b != 401 {
		t.Fatalf("got %d, %d, want 200, 401", a, b)
	}
	ready := func(text string) {
		t.Helper()
		for !strings.Contains(fetch(t, http.DefaultClient, s.admin+"/readyz").body, text) {
			if t.Context().Err() != nil || t.Failed() {
				t.Fatalf("/readyz never says %q", text)
			}
		}
	}
	write("secret", "short")
	ready("can be guessed")
	if a, b := ask(first), s.metrics(t)["sluice_config_current"]; a != 200 || b != 0 {
		t.Errorf("with a key that is no good: got %d, sluice_config_current %v; want 200, 0", a, b)
	}
	write("secret", second)
	for ask(second) != 200 && !t.Failed() && t.Context().Err() == nil {
	}
	if a, b := ask(first), s.metrics(t)["sluice_config_current"]; a != 401 || b != 1 {
		t.Errorf("with the second key: got %d, sluice_config_current %v; want 401, 1", a, b)
	}
	write("admin", "guess")
	ready("5 bytes can be guessed")
	if got := admin("the-first-token-of-all"); got != 200 {
		t.Errorf("a token file that is no good has taken the token away: got %d", got)
	}
	write("admin", "the-second-token-of-all")
	for admin("the-second-token-of-all") != 200 && !t.Failed() && t.Context().Err() == nil {
	}
	if got := admin("the-first-token-of-all"); got != 401 {
		t.Errorf("the first token: got %d, want 401", got)
	}
	s.expectLog(t, "stays active")
}
