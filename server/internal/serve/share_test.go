// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// sharedRules are limits that are divided, each for its own requests.
const sharedRules = `
rules:
  - {name: log, match: {query: {rule: log}}, by: query.userId, limits: 60/min sliding-log, failure: local}
  - {name: login, match: {query: {rule: login}}, by: query.userId, limits: 5/15min fixed-window anchor first, failure: local}
  - {name: bucket, match: {query: {rule: bucket}}, by: query.userId, limits: 60/min, failure: local}
  - {name: day, match: {query: {rule: day}}, by: query.userId, limits: 100/day calendar %s, failure: local}
`

// noon returns a time zone where it is noon, so that its day does not end soon.
func noon() string { return fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) }

// drain sends requests to all nodes in turn until each has denied, and returns how many passed
// and the last denial.
func drain(t *testing.T, all []*servetest.Gateway, path string) (passed int, denial servetest.Answer) {
	t.Helper()
	for denied := 0; denied < len(all); {
		denied = 0
		for _, r := range all {
			if a := r.Get(t, path); a.Status == http.StatusOK {
				passed++
			} else if denied, denial = denied+1, a; a.Status != http.StatusTooManyRequests {
				t.Fatalf("%s: status %d: %s", path, a.Status, a.Body)
			}
		}
	}
	return passed, denial
}

// TestNodesShareALimit: three nodes whose store is stopped admit together what the limit does.
// A node that was never connected divides by the number in its file, and all is charged when
// the store is back.
func TestNodesShareALimit(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf("store: {redis: {url: %q}}\nnodes: 2\n", redis.URL()) + fmt.Sprintf(sharedRules, noon())
	all := make([]*servetest.Gateway, 3)
	for i := range all {
		all[i] = servetest.Start(t, yaml)
	}
	for _, r := range all {
		testkit.Until(t, "three nodes", func() bool {
			return strings.Contains(r.Ask(t, http.MethodGet, "/v1/overview", "").Body, `"nodes": 3`)
		})
	}
	redis.Kill(t)
	for _, r := range all {
		testkit.Until(t, "the store to be marked down", func() bool {
			r.Get(t, "/?rule=bucket&userId=first")
			return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 0
		})
		testkit.Contains(t, servetest.Ready(t, r).Body, "each node decides with its share of the limit (nodes: 3)")
	}
	for _, c := range []struct {
		rule, policy string
		passed       int
		retry        int // seconds, at most
	}{
		{"log", `"log";q=20;w=60`, 60, 60},
		{"login", `"login";q=1;w=900`, 3, 900},
		{"bucket", `"bucket";q=60;w=180;sluice-burst=20`, 60, 3},
		{"day", `"day";q=33;w=86400`, 99, 86400},
	} {
		began := time.Now()
		passed, denial := drain(t, all, "/?userId=ann&rule="+c.rule)
		most := c.passed + 60*int(time.Since(began)/time.Minute)
		if c.rule == "bucket" { // each second one of the nodes gets a unit back
			most = c.passed + int(time.Since(began)/time.Second) + len(all)
		}
		retry, err := strconv.Atoi(denial.Header.Get("Retry-After"))
		if passed < c.passed || passed > most || err != nil || retry < 1 || retry > c.retry {
			t.Errorf("%s: %d passed, Retry-After %d, %v; want %d, at most %d", c.rule, passed, retry, err, c.passed, c.retry)
		}
		if got := denial.Header["Ratelimit-Policy"]; len(got) != 1 || got[0] != c.policy {
			t.Errorf("%s: RateLimit-Policy %q, want %s", c.rule, got, c.policy)
		}
	}
	_, denial := drain(t, all[:1], "/?rule=bucket&userId=bob")
	wait, err := strconv.Atoi(denial.Header.Get("Retry-After"))
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Duration(wait) * time.Second)
	all[0].Want(t, http.StatusOK, "/?rule=bucket&userId=bob")
	for _, r := range all {
		if got := r.Metrics(t)[`sluice_degraded_total{store="redis",policy="local"}`] + r.Metrics(t)[`sluice_degraded_total{policy="local",store="redis"}`]; got < 60 {
			t.Errorf("%v requests were counted as decided by the policy", got)
		}
	}

	fresh := servetest.Start(t, yaml)
	testkit.Contains(t, warning(t, fresh, "never reached the store"), "nodes=2")
	began := time.Now()
	if passed, _ := drain(t, []*servetest.Gateway{fresh}, "/?rule=log&userId=ann"); passed < 30 || passed > 30*(1+int(time.Since(began)/time.Minute)) {
		t.Errorf("a node that was never connected let %d through, want 30", passed)
	}

	redis.Run(t)
	for _, r := range append(all, fresh) {
		testkit.Until(t, "the store to be back", func() bool {
			r.Get(t, "/?rule=bucket&userId=last")
			m := r.Metrics(t)
			return m[`sluice_store_up{store="redis"}`] == 1 && m[`sluice_store_owed_keys{store="redis"}`] == 0
		})
	}
	for rule, left := range map[string]int{"login": 2, "day": 1} {
		if passed, _ := drain(t, all, "/?userId=ann&rule="+rule); passed != left {
			t.Errorf("%s: %d passed on the store's return, want %d", rule, passed, left)
		}
	}
}
