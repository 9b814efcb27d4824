// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

// recorded is a configuration whose rules need what an access log does not have.
const recorded = `
decision_log: {file: %s, keys: %s}
rules:
  - {name: user, by: header.X-User, missing: skip, limits: 20/min sliding-log, tiers: {by: header.X-Plan, limits: {pro: 40/min sliding-log, all: none}}}
  - {name: debug, match: {header: {X-Debug: "1"}}, by: [ip, query.id], missing: share, limits: 6/10s}
  - {name: priced, match: {path: /priced}, by: ip, cost: {request_header: X-Cost, most: 10}, limits: 90/min sliding-counter}
  - {name: failures, match: {path: /fail}, by: ip, when: {response: 5xx}, limits: 5/min fixed-window}
  - {name: plain, by: method, mode: shadow, limits: 50/min}
`

// TestRecorded: the decisions of a running gateway are the same when its decision log is
// replayed, with hashed keys and with plain ones.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"hashed", "plain"} {
		t.Run(keys, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "decisions.jsonl")
			var ahead atomic.Int64
			clock := func() time.Time { return time.UnixMicro(1_800_000_000_000_000 + ahead.Load()) }
			upstream := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/fail" {
					w.WriteHeader(http.StatusBadGateway)
				}
			})
			yaml := fmt.Sprintf(recorded, log, keys)
			g := servetest.Start(t, "upstream: "+upstream+yaml, func(o *serve.Options) { o.Now = clock })
			for i := range 240 {
				ahead.Add(137_001)
				header := []string{"X-Cost", fmt.Sprint(i % 9)}
				if i%4 > 0 {
					header = append(header, "X-User", fmt.Sprint("u", i%3), "X-Plan", []string{"", "pro", "all"}[i%3])
				}
				if i%2 == 0 {
					header = append(header, "X-Debug", "1")
				}
				g.Get(t, []string{"/", "/priced", "/fail", "/?id=a", "/?id=b"}[i%5], header...)
			}
			if err := g.Wait(); err != nil { // writes the rest of the log
				t.Fatal(err)
			}
			o := replay.Options{Rules: rules(t, "upstream: "+upstream+yaml)}
			var err error
			if o.Policy, err = replay.OfDecisions(o.Policy); err != nil {
				t.Fatal(err)
			}
			of, err := arrivals.Open([]string{log}, nil, arrivals.Options{})
			if err != nil || !of.Decisions() {
				t.Fatal(err)
			}
			r, err := replay.Run(t.Context(), of, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Recorded == nil || r.Recorded.Requests != 240 || r.Recorded.Different != 0 || r.Denied == 0 || r.Requests != 240 || r.Log.Broken != 0 {
				t.Errorf("got %+v, recorded %+v", r, r.Recorded)
			}
			names := map[string]bool{}
			for _, rule := range r.Rules {
				names[rule.Rule+" "+rule.Mode] = rule.Requests > 0
			}
			if len(names) != 5 || !names["plain shadow"] || !names["user enforce"] {
				t.Errorf("rules %v", names)
			}
		})
	}
}

// TestRecordedDescriptors: the log has no descriptors, but the rules that decided them. A line
// may name more rules than one request can be charged under, as each is for another descriptor. No
// rule applies to a line about a limit of a file.
func TestRecordedDescriptors(t *testing.T) {
	t.Parallel()
	log, file := filepath.Join(t.TempDir(), "decisions.jsonl"), filepath.Join(t.TempDir(), "limits.yaml")
	testkit.WriteFile(t, file, "domain: d\ndescriptors: [{key: k20, rate_limit: {unit: day, requests_per_unit: 9}}]\n")
	yaml := fmt.Sprintf("listen: {address: 127.0.0.1:0, serve: rls, rls: {files: %s}}\ndecision_log: {file: %s, keys: plain}\nrules:\n", file, log)
	for i := range 20 {
		yaml += fmt.Sprintf("  - {name: r%d, match: {host: d, descriptor: {k%d: \"*\"}}, by: descriptor.k%d, limits: 2/day fixed-window}\n", i, i, i)
	}
	g := servetest.Start(t, yaml)
	for i := range 63 {
		body := fmt.Sprintf(`{"domain": "d", "descriptors": [{"entries": [{"key": "k%d", "value": "a"}]}]}`, i%21)
		servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodPost, g.URL+"/json", strings.NewReader(body)))
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if text := string(testkit.ReadFile(t, log)); strings.Count(text, `"rules":[{"rule":"","limit":"d.k20: 9/day fixed-window count-denied","mode":"enforced","key":"d|k20=a","cost":1,"verdict":"allowed",`) != 3 {
		t.Error(text)
	}
	p, err := replay.OfDecisions(rules(t, yaml).Policy)
	if err != nil {
		t.Fatal(err)
	}
	of, err := arrivals.Open([]string{log}, nil, arrivals.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Run(t.Context(), of, replay.Options{Rules: replay.Rules{Policy: p}})
	if err != nil || r.Requests != 63 || r.Denied != 20 || r.Recorded == nil || r.Recorded.Different != 0 {
		t.Errorf("got %+v, recorded %+v, %v", r, r.Recorded, err)
	}
}
