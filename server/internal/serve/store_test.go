// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestGatewaysShareAStore: gateways with the same store share the budgets, slots in flight
// included, and each rule applies its failure policy when the store is gone.
func TestGatewaysShareAStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q, prefix: site}}
rules:
  - {name: shared, match: {path: /shared}, limits: 10/min sliding-log}
  - {name: guarded, match: {path: /guarded}, limits: 1000/min, failure: closed}
  - {name: seat, match: {path: /seat}, by: ip, in_flight: 5}
`, servetest.Named(t, "up"), server.URL())
	fleet := []*servetest.Gateway{servetest.Start(t, yaml), servetest.Start(t, yaml)}
	passed := 0
	for i := range 30 {
		switch got := fleet[i%2].Get(t, "/shared"); got.Status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("got %d %s", got.Status, got.Body)
		}
	}
	if passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
	for range 7 { // each gives its slot back
		fleet[0].Want(t, 200, "/seat")
	}
	fleet[1].Want(t, 200, "/guarded")
	fleet[1].Ask(t, http.MethodPost, "/v1/key/reset", `{"rule": "shared", "parts": {}, "author": "eve"}`)
	// A node caches a denial for at most a second.
	testkit.Until(t, "the reset at the other gateway", func() bool { return fleet[0].Get(t, "/shared").Status == 200 })

	server.Kill(t)
	for _, s := range fleet {
		testkit.Until(t, "requests under an open rule to pass", func() bool { return s.Get(t, "/shared").Status == 200 })
		if got := s.Get(t, "/guarded"); got.Status != 503 || got.Header.Get("Retry-After") == "" {
			t.Errorf("closed, without the store: got %d", got.Status)
		}
		testkit.Until(t, "the loss to be reported", func() bool {
			s.Get(t, "/guarded")
			page := servetest.Ready(t, s)
			return page.Status == 200 && strings.Contains(page.Body, "store: down; each rule applies its own failure policy")
		})
	}
}

// TestSlotsInAnOutage: a slot whose request ends while the store hangs is free when the store
// is back, without a log line; meanwhile each rule applies its failure policy.
func TestSlotsInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	arrived, release := make(chan struct{}), make(chan struct{})
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {
		select {
		case arrived <- struct{}{}:
		case <-release:
		}
		<-release
	})
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: "redis://%s%s"}}
rules:
  - {name: guarded, match: {path: /guarded}, in_flight: 1, failure: closed}
  - {name: local, match: {path: /local}, in_flight: 1, failure: local}
  - {name: open, match: {path: /open}, in_flight: 1}
`, up, server.Addr, hanging))
	got := make(chan servetest.Answer, 1)
	go func() { got <- s.Get(t, "/guarded") }()
	<-arrived
	s.Want(t, http.StatusTooManyRequests, "/guarded")
	server.Stop(t)
	close(release)
	if a := <-got; a.Status != http.StatusOK {
		t.Errorf("what was in flight: got %d", a.Status)
	}
	for _, c := range []struct {
		path string
		want int
	}{{"/guarded", http.StatusServiceUnavailable}, {"/local", http.StatusOK}, {"/local", http.StatusOK}, {"/open", http.StatusOK}} {
		s.Want(t, c.want, c.path)
	}
	server.Continue(t)
	testkit.Until(t, "the slot to be free", func() bool { return s.Get(t, "/guarded").Status == http.StatusOK })
	for range 5 { // and it is given back again each time
		s.Want(t, http.StatusOK, "/guarded")
	}
}

// TestStores: the file accepts the URLs of --store, sentinels and Clusters included.
func TestStores(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
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
				servetest.Named(t, "up"), c.url(t))
			fleet := []*servetest.Gateway{servetest.Start(t, yaml), servetest.Start(t, yaml)}
			for user := range 5 {
				passed := 0
				for i := range 30 {
					if got := fleet[i%2].Get(t, fmt.Sprintf("/?user=%d", user)); got.Status == http.StatusOK {
						passed++
					}
				}
				if passed != 10 {
					t.Errorf("user %d: %d passed, want 10", user, passed)
				}
			}
			testkit.Contains(t, servetest.Ready(t, fleet[0]).Body, "store: up")
		})
	}
}

// TestKeysAreReadAgain: a changed key, or admin token, takes effect without a signal; an
// invalid one keeps the previous one and says why.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) { testkit.WriteFile(t, filepath.Join(dir, name), text) }
	const first, second = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	write("secret", first)
	write("admin", "the-first-token-of-all")
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
admin: {address: 127.0.0.1:0, token_file: %q}
tokens: {hmac_file: %q}
rules: [{name: user, by: claim.sub, limits: 1000/min sliding-log}]
`, servetest.Named(t, "up"), filepath.Join(dir, "admin"), filepath.Join(dir, "secret")), servetest.Stopped)
	ask := func(secret string) int {
		return s.Get(t, "/", "Authorization", "Bearer "+tokenOf(secret, `{"sub":"ann"}`)).Status
	}
	admin := func(token string) int {
		return servetest.Fetch(t, http.DefaultClient, s.Admin+"/policy", "Authorization", "Bearer "+token).Status
	}
	if a, b := ask(first), ask(second); a != 200 || b != 401 {
		t.Fatalf("got %d, %d, want 200, 401", a, b)
	}
	ready := func(text string) {
		t.Helper()
		testkit.Until(t, "/readyz to say "+text, func() bool { return strings.Contains(servetest.Ready(t, s).Body, text) })
	}
	write("secret", "short")
	ready("can be guessed")
	if a, b := ask(first), s.Metrics(t)["sluice_config_current"]; a != 200 || b != 0 {
		t.Errorf("with a key that is no good: got %d, sluice_config_current %v; want 200, 0", a, b)
	}
	write("secret", second)
	testkit.Until(t, "the second key", func() bool { return ask(second) == 200 })
	if a, b := ask(first), s.Metrics(t)["sluice_config_current"]; a != 401 || b != 1 {
		t.Errorf("with the second key: got %d, sluice_config_current %v; want 401, 1", a, b)
	}
	write("admin", "guess")
	ready("5 bytes can be guessed")
	if got := admin("the-first-token-of-all"); got != 200 {
		t.Errorf("a token file that is no good has taken the token away: got %d", got)
	}
	write("admin", "the-second-token-of-all")
	testkit.Until(t, "the second token", func() bool { return admin("the-second-token-of-all") == 200 })
	if got := admin("the-first-token-of-all"); got != 401 {
		t.Errorf("the first token: got %d, want 401", got)
	}
	s.ExpectLog(t, "stays active")
}
