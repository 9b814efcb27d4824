// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/report"
	"github.com/sluicegate/sluice/server/internal/tally"
)

const (
	// mostDetailed is the number of rules that the nodes of a fleet report in detail if none
	// is named: those with most denials, then those with most requests.
	mostDetailed = 16
	// mostReported is the number of keys of each level that a node reports.
	mostReported = 20
)

// ReportOf returns the counts of a node up to now, with details of these rules.
func ReportOf(t *tally.Tally, p *policy.Policy, now time.Time, rules []string) *report.Report {
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
			detail(t, &rule)
			rule.Detail.Recent, rule.Detail.Day = past, day
		}
		if counted {
			r.Rules = append(r.Rules, rule)
		}
	}
	if n := len(r.Rules) - report.MostRules; n > 0 {
		slices.SortStableFunc(r.Rules, func(a, b report.Rule) int { return busier(a.Recent, b.Recent) })
		r.More, r.Rules = n, r.Rules[:report.MostRules]
	}
	return r
}

// detail adds the details of a rule, which take room.
func detail(t *tally.Tally, r *report.Rule) {
	r.Detail = &report.Detail{Top: t.Top(r.Name, mostReported)}
	if hour, day, ok := t.Keys(r.Name); ok {
		r.Detail.Hour, r.Detail.Days = hour, day
	}
	denials := t.Denials(r.Name)
	r.Unstated = denials.Unstated
	for i := range r.Candidates {
		r.Candidates[i].Rescued = denials.Rescued[r.Candidates[i].Name]
	}
}

// RulesHash returns a hash of the parts of the rules that are shown: names, modes, limits,
// keys, candidates and failures.
func RulesHash(p *policy.Policy) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		var candidates []string
		for _, l := range r.Levels {
			for _, c := range l.Candidates {
				candidates = append(candidates, candidateText(&l, &c))
			}
		}
		_ = e.Encode([]any{ruleStatus(r, nil), byText(r), r.Failure.String(), candidates}) // texts, into what never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func candidateText(l *policy.Level, c *policy.Candidate) string {
	text := []string{l.Name, c.Name}
	for _, limit := range c.Limits {
		text = append(text, limit.String())
	}
	for _, tier := range slices.Sorted(maps.Keys(c.Tiers)) {
		text = append(text, fmt.Sprint(tier, c.Tiers[tier]))
	}
	return strings.Join(text, "+")
}

// busier orders rules by their denials, then by their requests, most first.
func busier(a, b history.Counts) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests()+b.WouldDeny, a.Requests()+a.WouldDeny))
}
