// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/finding"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// RuleOf describes a rule with its counts. report is nil if nothing was counted.
func RuleOf(r *policy.Rule, report *outcome.Report) Rule {
	o := Rule{RuleStatus: StatusOf(r, report), By: byText(r), Failure: r.Failure.String()}
	for _, c := range o.Candidates {
		o.Evaluated += c.Evaluated
		o.WouldDeny += c.WouldDeny
	}
	return o
}

// byText returns the parts of a rule's keys, level by level.
func byText(r *policy.Rule) string {
	var levels []string
	for i := range r.Levels {
		var parts []string
		for _, part := range r.Levels[i].By {
			parts = append(parts, part.String())
		}
		if len(parts) > 0 {
			levels = append(levels, strings.Join(parts, " "))
		}
	}
	return strings.Join(levels, ", ")
}

// Keyed adds the number of the rule's keys, and the findings.
func (o *Rule) Keyed(now time.Time, past *history.Series, hourKeys, dayKeys *sketch.Sum, denials history.Denials) {
	hour, day := hourKeys.Count(), dayKeys.Count()
	o.KeysHour, o.KeysDay = &hour, &day
	o.Findings = finding.Of(&finding.Figures{
		Now: now, Hour: hour, Day: day, Hourly: past.SumSince(hour.Since), Daily: past.SumSince(day.Since), Denials: denials,
	})
}

// StatusOf describes a rule with its counts. report is nil if nothing was counted.
func StatusOf(r *policy.Rule, report *outcome.Report) RuleStatus {
	s := RuleStatus{Name: r.Name, Mode: mode(r.Shadow)}
	if report != nil {
		s.Counts, s.Candidates = report.Counts, report.Candidates
	}
	for j := range r.Levels {
		for _, limit := range r.Levels[j].Limits {
			limit.Limit = r.Counted(limit.Limit)
			s.Limits = append(s.Limits, limit.String())
		}
		if r.Levels[j].Unlimited {
			s.Limits = append(s.Limits, "none")
		}
	}
	return s
}

func mode(shadow bool) string {
	if shadow {
		return "shadow"
	}
	return "enforce"
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
		_ = e.Encode([]any{StatusOf(r, nil), byText(r), r.Failure.String(), candidates}) // texts, into a hash, which never fails
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
