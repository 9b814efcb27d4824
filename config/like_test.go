// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
)

// TestLimitsInTheirPlace: limits of tiers, overrides and candidates are counted like the
// level's limits that they replace, at any place of the level.
func TestLimitsInTheirPlace(t *testing.T) {
	c := parse(t, `
rules:
  - name: before
    overrides: {key: 192.0.2.1, limits: 9/min, reason: r, author: a}
    tiers: {by: header.X-Plan, limits: {pro: [7/min, "8/h token-bucket"]}}
    candidates: {trial: 2/min}
    limits: [5/min sliding-log, 6/h fixed-window]
    by: ip
  - name: soft
    by: ip
    limits: soft 5/min sliding-log grace 50/day calendar UTC
    overrides: [{key: 192.0.2.1, limits: soft 6/min grace 60/day, reason: r, author: a}, {key: 192.0.2.2, limits: 7/min, reason: r, author: a}]
    tiers: {by: header.X-Plan, limits: {pro: {soft: 8/min, grace: 80/day}}}
  - name: tree
    levels:
      - {name: one, by: ip, tiers: {by: header.X-Plan, limits: {pro: 7/min}}, limits: 5/min sliding-log}
      - {name: two, by: header.X-User, tiers: {by: header.X-Plan, limits: {pro: 7/min}}, limits: 5/min sliding-counter strict}
`)
	var got []string
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		for _, l := range r.Levels {
			line := r.Name + l.Name + ":"
			if l.Tiers != nil {
				line += fmt.Sprint(" plans ", l.Tiers.Limits["pro"])
			}
			for _, o := range l.Overrides {
				line += fmt.Sprint(" override ", o.Limits)
			}
			for _, c := range l.Candidates {
				line += fmt.Sprint(" candidate ", c.Limits)
			}
			got = append(got, line)
		}
	}
	want := `before: plans [7/min sliding-log 8/hour] override [9/min sliding-log] candidate [2/min sliding-log]
soft: plans [soft 8/min sliding-log grace 80/day fixed-window calendar UTC] override [soft 6/min sliding-log grace 60/day fixed-window calendar UTC] override [7/min sliding-log]
treeone: plans [7/min sliding-log]
treetwo: plans [7/min sliding-counter strict]`
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err := config.Parse("sluice.yaml", []byte(`
rules:
  - name: a
    by: ip
    overrides:
      - {key: 192.0.2.1, limits: 9/min burst 3, reason: r, author: a}
    limits: [5/min sliding-log, 6/h fixed-window]
    tiers:
      by: header.X-Plan
      limits: {pro: 7/day}
`))
	for _, want := range []string{
		`sluice.yaml:6:40: limit "9/min burst 3": burst belongs to token-bucket and leaky-bucket, and the limit in whose place`,
		`sluice.yaml:10:21: limit "7/day": replaces limits counted by fixed-window and sliding-log; name the algorithm`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
