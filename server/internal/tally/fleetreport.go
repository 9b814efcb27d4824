// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/report"
)

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
