// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

var notApplied = regexp.MustCompile(`(?m)^((?:shared )?limits) not applied since (\S+)$`)

// TestFailover: when the store's address leads to another server while connections to the old
// one stay, limits apply again without a restart, and changes for all nodes are made.
// Meanwhile a node that lets requests pass reports since when limits do not apply.
func TestFailover(t *testing.T) {
	t.Parallel()
	for policy, what := range map[string]string{"open": "limits", "local": "shared limits", "closed": ""} {
		ready := http.StatusOK
		if policy == "closed" {
			ready = http.StatusServiceUnavailable
		}
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			a := redistest.StartAddress(t)
			began := time.Now().Truncate(time.Second)
			r := servetest.Start(t, fmt.Sprintf("store: {redis: {url: %q}}\nrules: [{name: api, by: header.X-User, limits: 3/h sliding-log, in_flight: 5, failure: %s}]\n", a.URL(), policy))
			for range 100 { // over each connection of the client
				r.Get(t, "/?userId=u", "X-User", "a")
			}
			a.Demote(t, "READONLY")
			testkit.Until(t, "the store to be marked down", func() bool {
				r.Get(t, "/?userId=u", "X-User", "b")
				return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 0
			})
			said := servetest.Ready(t, r)
			since := notApplied.FindStringSubmatch(said.Body)
			if said.Status != ready || (since == nil) != (what == "") {
				t.Errorf("readyz: %d %q", said.Status, said.Body)
			}
			if since != nil {
				if at, err := time.Parse(time.RFC3339, since[2]); err != nil || since[1] != what || at.Before(began) || at.After(time.Now()) {
					t.Errorf("readyz: since %v, %v", at, err)
				}
			}
			if line := warning(t, r, "the store is unavailable"); strings.Contains(line, " "+strings.ReplaceAll(what, " ", "_")+"_not_applied_since=") != (what != "") || !strings.Contains(line, "READONLY") {
				t.Errorf("the log says %q", line)
			}
			a.Lead() // only the probe and the fleet's records can notice this
			testkit.Until(t, "the store to be back", func() bool { return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 1 })
			if said := servetest.Ready(t, r); said.Status != http.StatusOK || strings.Contains(said.Body, "not applied") {
				t.Errorf("readyz afterwards: %d %q", said.Status, said.Body)
			}
			statuses := make(map[int]int)
			for range 10 {
				statuses[r.Get(t, "/?userId=u", "X-User", "c").Status]++
			}
			if statuses[http.StatusOK] != 3 || statuses[http.StatusTooManyRequests] != 7 {
				t.Errorf("statuses %v, want 3 allowed and 7 denied", statuses)
			}
			testkit.Until(t, "a change for all", func() bool {
				got, _ := tell(t, r, http.MethodPut, `, "limits": ["100/h"]`)
				return got.Status == http.StatusOK
			})
			if keys := a.New.Do(t, "EXISTS", "sluice{fleet}!overrides"); keys != "1" {
				t.Error("the new server has no override")
			}
			if policy == "open" {
				r.ExpectLog(t, "the store is available again") // 10 s after the other line
				if log := r.Logs.String(); strings.Contains(log, "outages=0") {
					t.Errorf("no outage is over, or began:\n%s", log)
				}
			}
		})
	}
}
