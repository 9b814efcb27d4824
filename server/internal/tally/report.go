// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/server/internal/history"
)

// Counts are the outcomes of requests under a rule at one instant.
type Counts struct {
	history.Counts
	Evaluated uint64 `json:"evaluated"`
	Unlimited uint64 `json:"unlimited"` // allowed, as their tier has no limits
}

// IsZero reports whether nothing was counted.
func (c Counts) IsZero() bool { return c == Counts{} }

// Plus returns what was counted in c and o together.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Counts.Plus(o.Counts), c.Evaluated + o.Evaluated, c.Unlimited + o.Unlimited}
}

// Max returns the largest count.
func (c Counts) Max() uint64 { return max(c.Counts.Max(), c.Evaluated, c.Unlimited) }

func (r *Rule) counts() Counts {
	return Counts{Counts: r.history(), Evaluated: r.Evaluated.Load(), Unlimited: r.Unlimited.Load()}
}

// Report is the counts of a rule.
type Report struct {
	Rule string
	Counts
	Candidates []CandidateReport
	Priced     bool   // its cost is in a header field of the response
	Unstated   uint64 // responses without that field
}

// CandidateReport is the number of denials that a candidate would have made.
type CandidateReport struct {
	Level     string `json:"level,omitempty"`
	Name      string `json:"name"`
	Evaluated uint64 `json:"evaluated"`
	WouldDeny uint64 `json:"would_deny"`
	Rescued   uint64 `json:"rescued,omitempty"` // of what the rule has denied recently; of a fleet
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

// Denied holds the keys of a rule's level with the most denials.
type Denied struct {
	Rule   string     `json:"-"`
	Level  string     `json:"n,omitempty"`
	Total  uint64     `json:"t"`           // denials of the level
	Recent uint64     `json:"r,omitempty"` // recently
	Rest   uint64     `json:"o,omitempty"` // how often a key that is not among Keys was denied at most
	Keys   []KeyCount `json:"k"`
}

// Top returns the n keys with the most denials of each level that has denied any, in the order
// of the policy. An empty rule means all rules.
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
