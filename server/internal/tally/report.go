// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/report"
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

// Report returns the counts of a node up to now, with details of these rules.
func (t *Tally) Report(p *policy.Policy, now time.Time, rules []string) *report.Report {
	t.Tick(now)
	r := &report.Report{Total: t.Total(), Hashed: t.Hashed()}
	if recent, day, ok := t.Past(""); ok {
		r.Recent, r.Day = &recent, &day
	}
	detailed := make(map[string]bool, len(rules))
	for _, rule := range rules {
		detailed[rule] = true
	}
	shadow := make(map[string]bool)
	for i := range len(p.Rules()) {
		shadow[p.Rules()[i].Name] = p.Rules()[i].Shadow
	}
	for _, of := range t.Reports() {
		rule := report.Rule{Name: of.Rule, Shadow: shadow[of.Rule], Counts: of.Counts, Candidates: of.Candidates}
		var past, day *history.Series
		if recent, coarse, ok := t.Past(of.Rule); ok {
			rule.Recent, past, day = recent.Sum(), &recent, &coarse
		}
		counted := !rule.Counts.IsZero() || detailed[of.Rule]
		for _, c := range of.Candidates {
			counted = counted || c.Evaluated > 0
		}
		if detailed[of.Rule] {
			t.detail(&rule)
			rule.Detail.Recent, rule.Detail.Day = past, day
		}
		if counted {
			r.Rules = append(r.Rules, rule)
		}
	}
	if n := len(r.Rules) - report.MostRules; n > 0 {
		slices.SortStableFunc(r.Rules, func(a, b report.Rule) int { return report.Busier(a.Recent, b.Recent) })
		r.More, r.Rules = n, r.Rules[:report.MostRules]
	}
	return r
}

// detail adds the details of a rule, which take room.
func (t *Tally) detail(r *report.Rule) {
	r.Detail = &report.Detail{Top: t.Top(r.Name, report.MostKeys)}
	if hour, day, ok := t.Keys(r.Name); ok {
		r.Detail.Hour, r.Detail.Days = hour, day
	}
	denials := t.Denials(r.Name)
	r.Unstated = denials.Unstated
	for i := range r.Candidates {
		r.Candidates[i].Rescued = denials.Rescued[r.Candidates[i].Name]
	}
}
