// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestSettlementThroughAnOutage: a request that ends while the store hangs is charged what it has used
// when the store is back, and its estimate does not stay.
func TestSettlementThroughAnOutage(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{"open", "local", "closed"} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			network := redistest.StartProxy(t, redistest.Start(t, redistest.Redis(t)).Addr)
			arrived, release := make(chan struct{}, 1), make(chan struct{})
			upstream := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
				tokens := "0"
				if r.URL.Path == "/slow" {
					arrived <- struct{}{}
					<-release
					tokens = "7"
				}
				w.Header().Set("X-Tokens", tokens)
			})
			g := servetest.Start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: "redis://%s%s"}}
rules:
  - name: tokens
    by: header.X-User
    failure: %s
    cost: {response_header: X-Tokens, estimate: 20, most: 1000}
    hold_for: 1h
    limits: 100/day sliding-log
`, upstream, network.Addr, hanging, failure))
			slow := make(chan servetest.Answer)
			go func() { slow <- g.Get(t, "/slow", "X-User", "ada") }()
			<-arrived
			network.Set(redistest.Swallowing)
			close(release)
			if r := <-slow; r.Status != http.StatusOK {
				t.Errorf("got %d", r.Status)
			}
			testkit.Until(t, "the settlement to be owed", func() bool { return g.Metrics(t)[`sluice_store_owed_keys{store="redis"}`] == 1 })
			network.Set(redistest.Faithful)
			testkit.Until(t, "the settlement to be sent", func() bool {
				m := g.Metrics(t)
				return m[`sluice_store_owed_keys{store="redis"}`] == 0 && m[`sluice_store_up{store="redis"}`] == 1
			})
			r := g.Get(t, "/", "X-User", "ada")
			if got := r.Header.Get("RateLimit"); !strings.Contains(got, ";r=73;") { // of 100, less 7 and an estimate
				t.Errorf("got %s, want 73 left", got)
			}
		})
	}
}

// TestHoldsThroughFailover: a request that was charged an estimate by a server is settled at the
// server that has taken its place and knows of no hold: it is charged what it has used, once.
func TestHoldsThroughFailover(t *testing.T) {
	t.Parallel()
	a := redistest.StartAddress(t)
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	upstream := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		tokens := "0"
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
			tokens = "7"
		}
		w.Header().Set("X-Tokens", tokens)
	})
	g := servetest.Start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q}}
rules:
  - name: tokens
    by: header.X-User
    cost: {response_header: X-Tokens, estimate: 20, most: 1000}
    hold_for: 1h
    limits: 100/day sliding-log
`, upstream, a.URL()))
	left := func() string {
		r := g.Get(t, "/", "X-User", "ada")
		_, rest, _ := strings.Cut(r.Header.Get("RateLimit"), ";r=")
		n, _, _ := strings.Cut(rest, ";")
		return n
	}
	slow := make(chan servetest.Answer)
	go func() { slow <- g.Get(t, "/slow", "X-User", "ada") }()
	<-arrived
	if n := left(); n != "60" { // of 100, less two estimates
		t.Errorf("%s are left, want 60", n)
	}
	if doc := servetest.Fetch(t, http.DefaultClient, g.Admin+"/v1/key?header.X-User=ada").Body; !strings.Contains(doc, "; open holds: 1, of 20 units; the next ends at ") {
		t.Errorf("the key is shown as %s", doc)
	}
	a.Demote(t, "READONLY")
	testkit.Until(t, "the store to be marked down", func() bool {
		left()
		return g.Metrics(t)[`sluice_store_up{store="redis"}`] == 0
	})
	a.Lead()
	testkit.Until(t, "the store to be back", func() bool { return g.Metrics(t)[`sluice_store_up{store="redis"}`] == 1 })
	if n := left(); n != "80" {
		t.Errorf("%s are left at the new server, want 80", n)
	}
	close(release)
	if r := <-slow; r.Status != http.StatusOK {
		t.Errorf("got %d", r.Status)
	}
	testkit.Until(t, "the settlement", func() bool { return left() == "73" })
}
