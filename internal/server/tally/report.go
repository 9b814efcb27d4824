// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/server/history"
)

// Counts are the outcomes of requests under a rule, at one moment.
type Counts struct {
	history.Counts
	Evaluated uint64 `json:"evaluated"`
	Unlimited uint64 `json:"unlimited"` // allowed, as their tier has no limits
}

func (r *Rule) counts() Counts {
	return Counts{Counts: r.history(), Evaluated: r.Evaluated.Load(), Unlimited: r.Unlimited.Load()}
}

// Report is the counts of a rule.
type Report struct {
	Rule string
	Counts
	Candidates []CandidateReport
	Priced     bool   // by a header field of the response
	Unstated   uint64 // responses that lacked it
}

// CandidateReport is what a candidate would have denied.
type CandidateReport struct {
	Level     string `json:"level,omitempty"`
	Name      string `json:"name"`
	Evaluated uint64 `json:"evaluated"`
	WouldDeny uint64 `json:"would_deny"`
}

// Reports returns the counts of all rules, in the order of the policy.
func (t *Tally) Reports() []Report {
	in := t.current.Load()
	if in == nil {
		return nil
	}
	reports := make([]Report, 0, len(in.names))
	for _, name := range in.names {
		c := in.rules[name]
		r := Report{Rule: name, Counts: c.counts(), Priced: c.priced, Unstated: c.Unstated.Load()}
		for _, candidate := range slices.Sorted(maps.Keys(c.candidates)) {
			level, short, _ := strings.Cut(candidate, "+")
			counts := c.candidates[candidate].counts()
			r.Candidates = append(r.Candidates, CandidateReport{Level: level, Name: short, Evaluated: counts.Evaluated, WouldDeny: counts.WouldDeny})
		}
		reports = append(reports, r)
	}
	return reports
}

// Denied are the keys of a rule's level that were denied most.
type Denied struct {
	Rule, Level string
	Total       uint64 // denials of the level
	Recent      uint64 // recently
	Rest        uint64 // how often a key that is not among Keys was denied at most
	Keys        []KeyCount
}

// Top returns the n keys denied most of each level that has denied any, in the
// order of the policy. Empty rule means all rules.
func (t *Tally) Top(rule string, n int) []Denied {
	in := t.current.Load()
	if in == nil {
		return nil
	}
	var all []Denied
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
