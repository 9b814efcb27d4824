// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestLinesAreCounts: while the log is moved away and the configuration reloaded, the lines of
// each verdict are as many as the metrics count, for all requests and for each rule, and every
// dropped line is counted.
func TestLinesAreCounts(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { linesAreCounts(t, "") })
	t.Run("redis", func(t *testing.T) {
		linesAreCounts(t, fmt.Sprintf("store: {redis: {url: %q}}\n", redistest.Start(t, redistest.Redis(t)).URL()))
	})
}

func linesAreCounts(t *testing.T, store string) {
	t.Helper()
	each := testkit.Steps(100, 1000)
	const clients, moves = 4, 5
	path := filepath.Join(t.TempDir(), "decisions")
	s := servetest.Start(t, fmt.Sprintf(`
decision_log: %q
%srules:
  - {name: all, by: query.u, missing: skip, limits: [10/min sliding-log, 20/h]}
  - {name: tree, match: {path: /tree/}, levels: [{name: one, limits: 1000/min}, {name: two, by: query.u, limits: 30/min sliding-log}]}
  - {name: dry, match: {path: /dry}, mode: shadow, limits: 5/min sliding-log}
  - {name: needs, match: {path: /needs}, by: query.k, missing: refuse, limits: 20/min}
  - {name: soft, match: {path: /soft}, limits: {soft: 10/min sliding-log, grace: 20/min sliding-log}}
  - {name: seats, match: {path: /seats}, in_flight: 1}
  - {name: counts, match: {path: /counts}, limits: 40/min sliding-log, when: {response: [404]}}
  - {name: plans, match: {path: /plans}, by: ip, tiers: {by: query.p, limits: {pro: none}}, limits: 10/min}
  - {name: trial, match: {path: /trial}, limits: 60/min, candidates: {tight: 5/min sliding-log}}
`, path, store))
	paths := []string{"/", "/tree/a", "/dry", "/needs", "/needs?k=1", "/soft", "/seats", "/counts", "/plans?p=pro", "/plans", "/trial"}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				path := paths[i%len(paths)]
				if i%2 == 0 { // others have no user
					path = strings.Replace(path+"?", "?", fmt.Sprintf("?u=%d&", c), 1)
				}
				servetest.Fetch(t, client, s.URL+path)
			}
		})
	}
	files := []string{path}
	for i := range moves {
		moved := fmt.Sprint(path, i)
		if err := os.Rename(path, moved); err != nil {
			t.Fatal(err)
		}
		files = append(files, moved)
		s.Again <- syscall.SIGHUP
		testkit.Until(t, "a new file", func() bool { _, err := os.Stat(path); return err == nil })
	}
	all.Wait()
	n := float64(clients * each)
	written(t, s, "decision", n)
	m := s.Metrics(t)
	lines := make(map[string]float64)
	for _, file := range files {
		for _, d := range decisions(t, file) {
			lines[fmt.Sprintf("sluice_requests_total{verdict=%q}", d.Verdict)]++
			for rule, verdict := range d.ofRules() {
				lines[fmt.Sprintf("sluice_rule_requests_total{rule=%q,verdict=%q}", rule, verdict)]++
			}
		}
	}
	for _, verdict := range []string{"allowed", "warned", "delayed", "denied", "refused", "abandoned", "failed-open", "failed-closed"} {
		series := fmt.Sprintf("sluice_requests_total{verdict=%q}", verdict)
		if lines[series] != m[series] {
			t.Errorf("%s is %v, and there are %v lines", series, m[series], lines[series])
		}
		for _, rule := range []string{"all", "tree", "dry", "needs", "soft", "seats", "counts", "plans", "trial"} {
			series := fmt.Sprintf("sluice_rule_requests_total{rule=%q,verdict=%q}", rule, verdict)
			if lines[series] != m[series] {
				t.Errorf("%s is %v, and there are %v lines", series, m[series], lines[series])
			}
		}
	}
	for _, verdict := range []string{"allowed", "warned", "denied", "refused"} {
		if m[fmt.Sprintf("sluice_requests_total{verdict=%q}", verdict)] == 0 {
			t.Errorf("no request was %s", verdict)
		}
	}
	if w, d := m[`sluice_decision_log_lines_total{result="written"}`], m[`sluice_decision_log_lines_total{result="dropped"}`]; w != n || d != 0 {
		t.Errorf("%v lines written, %v dropped, of %v requests", w, d, n)
	}
}

// ofRules returns the metrics' counts for a request: a denial for the rule that binds,
// otherwise one for each rule that applied.
func (d *decision) ofRules() map[string]string {
	of := make(map[string]string)
	for _, r := range d.Rules {
		switch {
		case r.Mode == "shadow" || r.Mode == "candidate":
		case d.Verdict == "denied":
			if r.Binds {
				of[r.Rule] = "denied"
			}
		case d.Verdict == "refused":
			if r.Verdict == "refused" {
				of[r.Rule] = "refused"
			}
		case r.Mode == "grace":
			of[r.Rule] = "warned"
		case of[r.Rule] == "warned":
		case d.Delay > 0:
			of[r.Rule] = "delayed"
		default:
			of[r.Rule] = "allowed"
		}
	}
	return of
}
