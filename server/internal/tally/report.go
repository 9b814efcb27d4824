// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/server/internal/outcome"
)

func (r *Rule) counts() outcome.Counts {
	return outcome.Counts{Counts: r.history(), Evaluated: r.Evaluated.Load(), Unlimited: r.Unlimited.Load()}
}

// Reports returns the counts of all rules, in the order of the policy.
func (t *Tally) Reports() []outcome.Report {
	in := t.current.Load()
	if in == nil {
		return nil
	}
	reports := make([]outcome.Report, 0, len(in.names))
	for _, name := range in.names {
		c := in.rules[name]
		r := outcome.Report{Rule: name, Counts: c.counts(), Priced: c.priced, Unstated: c.Unstated.Load()}
		for _, candidate := range slices.Sorted(maps.Keys(c.candidates)) {
			level, short, _ := strings.Cut(candidate, "+")
			counts := c.candidates[candidate].counts()
			r.Candidates = append(r.Candidates, outcome.CandidateReport{Level: level, Name: short, Evaluated: counts.Evaluated, WouldDeny: counts.WouldDeny})
		}
		reports = append(reports, r)
	}
	return reports
}

// Top returns the n keys with the most denials of each level that has denied any, in the order
// of the policy. An empty rule means all rules.
func (t *Tally) Top(rule string, n int) []outcome.Denied {
	in := t.current.Load()
	if in == nil {
		return nil
	}
	var all []outcome.Denied
	for _, name := range in.names {
		if rule != "" && rule != name {
			continue
		}
		c := in.rules[name]
		for _, level := range slices.Sorted(maps.Keys(c.levels)) {
			if d := c.levels[level].top(n); d.Total > 0 {
				d.Rule, d.Level = name, level
				all = append(all, d)
			}
		}
	}
	return all
}
