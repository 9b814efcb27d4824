// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

// rules returns the rules of a configuration.
func rules(t testing.TB, yaml string) replay.Rules {
	t.Helper()
	c, err := config.Parse("sluice.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return replay.Rules{Policy: c.Policy, Allow: c.Allow, Deny: c.Deny}
}

// run replays a log with that content.
func run(t testing.TB, o replay.Options, content string) *replay.Result {
	t.Helper()
	log, err := arrivals.Open([]string{testkit.TempFile(t, "log", content)}, nil, arrivals.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Run(t.Context(), log, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// line returns a line of a log, at a time since 2024-03-01T01:30:00Z.
func line(at time.Duration, client, request string) string {
	return fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" 200 100 \"-\" \"curl\"\n", client, time.Unix(1709256600, 0).Add(at).UTC().Format("02/Jan/2006:15:04:05 -0700"), request)
}

// TestFigures: every figure of a log that is small enough to count by hand.
func TestFigures(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 8 { // at 50 s five pass, at 70 s none: the minute before has five
		b.WriteString(line(50*time.Second, "192.0.2.1", fmt.Sprint("GET /", i)))
	}
	b.WriteString(line(70*time.Second, "192.0.2.1", "GET /"))
	b.WriteString(line(70*time.Second, "192.0.2.2", "GET /"))
	b.WriteString(line(111*time.Second, "192.0.2.1", "GET /"))
	r := run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 5/min sliding-log}]")}, b.String())
	if r.Requests != 11 || r.Allowed != 7 || r.Denied != 4 || r.Refused != 0 || r.Keys != 2 || r.DeniedKeys != 1 || r.SpanSeconds != 61 || r.WorstWindow != 5 {
		t.Errorf("got %+v", r)
	}
	if r.PeakArrived.Requests != 8 || r.PeakPassed.Requests != 5 || r.PeakPassed.At.Unix() != 1709256650 {
		t.Errorf("peaks %+v %+v", r.PeakArrived, r.PeakPassed)
	}
	if len(r.Limits) != 1 || r.Limits[0].Bound != 5 || r.Limits[0].WorstKey != "192.0.2.1" || r.Limits[0].Denied != 4 || r.Limits[0].Undelivered != 0 {
		t.Errorf("limits %+v", r.Limits)
	}
	if k := r.TopDenied; len(k) != 1 || k[0].Requests != 10 || k[0].Denied != 4 || k[0].Share != 0.4 || k[0].First.Unix() != 1709256650 {
		t.Errorf("denied keys %+v", k)
	}
	want := []replay.Bin{{From: 1709256600, Allowed: 5, Denied: 3}, {From: 1709256660, Allowed: 2, Denied: 1}}
	if r.Series.Seconds != 60 || !slices.Equal(r.Series.Bins, want) {
		t.Errorf("series %+v", r.Series)
	}
	if r.Memory.Bytes <= 0 || r.Memory.States != 2 || len(r.Lacks) != 0 {
		t.Errorf("memory %+v, lacks %q", r.Memory, r.Lacks)
	}
	// The fixed window admits five more at 70 s, ten in a true minute, and the window is worse
	// than its quota, but not than its bound.
	r = run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 5/min fixed-window}]")}, strings.Repeat(b.String(), 1)+strings.Repeat(line(80*time.Second, "192.0.2.1", "GET /"), 9))
	if r.WorstWindow != 10 || r.Limits[0].Bound != 10 {
		t.Errorf("fixed window: %d of %d", r.WorstWindow, r.Limits[0].Bound)
	}
	// A bucket with a small burst denies although the window has room.
	r = run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 5/min burst 1}]")}, b.String())
	if r.Limits[0].Undelivered != r.Denied || r.Denied == 0 {
		t.Errorf("bucket: %+v", r.Limits)
	}
}

// TestRules: rules act as in the gateway, and what the log lacks is said once.
func TestRules(t *testing.T) {
	t.Parallel()
	const yaml = `
deny: 198.51.100.0/24
rules:
  - {name: login, match: {path: /login, method: POST}, by: ip, limits: 2/min fixed-window}
  - {name: all, by: ip, limits: 4/min fixed-window, exempt: {networks: 10.0.0.0/8}}
  - {name: query, match: {path: /s}, by: query.q, limits: 1/min fixed-window, missing: skip}
  - {name: user, by: header.X-User, missing: skip, limits: 1/min}
  - {name: trial, mode: shadow, by: ip, limits: 3/min fixed-window}
  - {name: slow, match: {path: /slow}, by: ip, limits: 1/10s leaky-bucket burst 3}
`
	var b strings.Builder
	for range 3 {
		b.WriteString(line(0, "192.0.2.1", "POST /x/../login"))
		b.WriteString(line(1*time.Second, "10.0.0.1", "GET /s?q=a"))
		b.WriteString(line(2*time.Second, "198.51.100.9", "GET /"))
		b.WriteString(line(3*time.Second, "192.0.2.2", "GET /slow"))
	}
	b.WriteString(line(4*time.Second, "192.0.2.1", "GET /"))
	b.WriteString(line(4*time.Second, "192.0.2.1", "GET /"))
	b.WriteString(line(4*time.Second, "192.0.2.1", "GET /"))
	r := run(t, replay.Options{Rules: rules(t, yaml)}, b.String())
	if r.Requests != 15 || r.Denied != 4 || r.Refused != 3 || r.Delayed != 2 {
		t.Errorf("got %+v", r)
	}
	want := map[string][2]int64{"login enforce": {3, 1}, "all enforce": {9, 1}, "query enforce": {3, 2}, "trial shadow": {9 + 3, 3}, "slow enforce": {3, 0}}
	for _, of := range r.Rules {
		if got := [2]int64{of.Requests, of.Denied}; got != want[of.Rule+" "+of.Mode] {
			t.Errorf("%s %s: got %v, want %v", of.Rule, of.Mode, got, want[of.Rule+" "+of.Mode])
		}
	}
	if len(r.Rules) != len(want) || !slices.Equal(r.Lacks, []string{"header X-User"}) {
		t.Errorf("rules %+v, lacks %q", r.Rules, r.Lacks)
	}
}

// TestColumns: a log without clients has one budget, and costs are those of a column.
func TestColumns(t *testing.T) {
	t.Parallel()
	log, err := arrivals.Open([]string{testkit.TempFile(t, "log", "TIMESTAMP,Tokens\n2023-11-16 18:17:03.9799600,4\n2023-11-16 18:17:04.0319600,7\n2023-11-16 18:17:05,6\n")}, nil, arrivals.Options{Cost: "Tokens"})
	if err != nil {
		t.Fatal(err)
	}
	o := replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 10/min sliding-log}]")}
	if o.Policy, err = replay.Columns(o.Policy, false, true); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Run(t.Context(), log, o)
	if err != nil || r.Allowed != 2 || r.Denied != 1 || r.Keys != 1 || r.WorstWindow != 10 || !slices.Equal(r.Lacks, []string{"client"}) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestAgainst: the verdicts that change are counted by key.
func TestAgainst(t *testing.T) {
	t.Parallel()
	log := strings.Repeat(line(0, "192.0.2.1", "GET /"), 5) + strings.Repeat(line(0, "192.0.2.2", "GET /"), 2)
	old := rules(t, "rules: [{name: a, by: ip, limits: 4/min}]")
	r := run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 2/min}]"), Against: &old}, log)
	if c := r.Against; c == nil || c.Allowed != 6 || c.Denied != 1 || c.NewlyDenied != 2 || c.NewlyAllowed != 0 || c.Keys != 1 || c.TopKeys[0].Key != "192.0.2.1" {
		t.Errorf("got %+v", c)
	}
}

// TestExplain: a decision of the past has its arithmetic.
func TestExplain(t *testing.T) {
	t.Parallel()
	log := strings.Repeat(line(0, "192.0.2.1", "GET /"), 3) + line(5*time.Second, "192.0.2.2", "GET /") + line(5*time.Second, "192.0.2.1", "GET /x")
	r := run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, limits: 3/min sliding-log}]"), Explain: &replay.Moment{Key: "192.0.2.1", At: 1709256604e6}}, log)
	x := r.Explained
	if x == nil || x.Line != 5 || x.Explanation.Verdict != "denied" || x.Explanation.Decision.RetryAfter != 55*time.Second {
		t.Errorf("got %+v", x)
	}
}

// TestSettled: a cost that the response has counts once the response is known, and requests in
// flight as long as they run.
func TestSettled(t *testing.T) {
	t.Parallel()
	r := run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, cost: response-bytes, limits: 250B/min sliding-log}]")}, strings.Repeat(line(0, "192.0.2.1", "GET /"), 9))
	if r.Allowed != 3 || r.WorstWindow != 300 { // the last goes over
		t.Errorf("bytes: %+v", r)
	}
	const json = `{"time":"2024-03-01T01:30:0%dZ","ip":"192.0.2.1","path":"/","method":"GET","status":200,"duration_ms":1500}` + "\n"
	var b strings.Builder
	for i := range 6 {
		fmt.Fprintf(&b, json, i)
	}
	r = run(t, replay.Options{Rules: rules(t, "rules: [{name: a, by: ip, in_flight: {cap: 1}}]")}, b.String())
	if r.Allowed != 3 || r.Denied != 3 || r.DeniedKeys != 1 {
		t.Errorf("in flight: %+v", r)
	}
}

// TestAccuracy: the figures of four requests around the edge of a minute.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	log, err := arrivals.Open([]string{testkit.TempFile(t, "log", strings.Repeat(line(59*time.Second, "192.0.2.1", "GET /"), 2)+strings.Repeat(line(60*time.Second, "192.0.2.1", "GET /"), 2))}, nil, arrivals.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Accuracy(t.Context(), log, rules(t, "rules: [{name: a, by: ip, limits: 2/min}]").Policy, sluice.PerMinute(2), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 4 || r.Keys != 1 || r.ExactDenied != 2 || r.OverLimit != 2 || len(r.Algorithms) != 14 || len(r.Estimates) != 3 {
		t.Errorf("got %+v", r)
	}
	for _, a := range r.Algorithms {
		a.BytesPerKey = 0
		switch want := (replay.Algorithm{Limit: a.Limit, Admitted: 1}); {
		case a.Limit == "2/min fixed-window": // which admits all if the edge of a window lies between
			want = replay.Algorithm{Limit: a.Limit, Differs: 0.1, FalseAllow: 0.1, WorstExcess: 1, Admitted: 1.2, DiffersPerDenied: 0.2}
			if near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }; !near(a.Differs, want.Differs) || !near(a.FalseAllow, want.FalseAllow) || a.FalseDeny != 0 ||
				a.WorstExcess != 1 || !near(a.Admitted, want.Admitted) || !near(a.DiffersPerDenied, want.DiffersPerDenied) {
				t.Errorf("got %+v, want %+v", a, want)
			}
		case strings.HasPrefix(a.Limit, "2/min sliding"):
			if a != want {
				t.Errorf("got %+v, want %+v", a, want)
			}
		case strings.HasPrefix(a.Limit, "1/min burst 1"):
			if a.FalseAllow != 0 || a.FalseDeny != 0.75 || a.Admitted != 0.5 {
				t.Errorf("got %+v", a)
			}
		}
	}
}
