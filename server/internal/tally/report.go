// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
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
	in := t.index()
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
	in := t.index()
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

const (
	mostCauses = 64
	longCause  = 200 // bytes
	lately     = 11  // minutes, the current one included
)

// Cause is a cause of refused requests.
type Cause = outcome.Cause

// causes counts refusals by cause. Texts come from rules and the program, never from a client,
// so there are few; those beyond mostCauses recent ones count as one.
type causes struct {
	mu     sync.Mutex
	minute int64 // the current one, since 1970
	of     map[Cause]*refusals
}

type refusals struct {
	total   uint64
	minutes [lately]uint64
}

func (r *refusals) recent() (n uint64) {
	for _, of := range r.minutes {
		n += of
	}
	return n
}

func (c *causes) add(cause Cause) {
	cause.Text = cmp.Or(strings.ToValidUTF8(cause.Text[:min(len(cause.Text), longCause)], ""), "no cause is known")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[Cause]*refusals)
	}
	n := c.of[cause]
	if n == nil && len(c.of) >= mostCauses {
		maps.DeleteFunc(c.of, func(_ Cause, n *refusals) bool { return n.recent() == 0 })
	}
	if n == nil && len(c.of) >= mostCauses {
		cause.Text = "other causes"
		n = c.of[cause]
	}
	if n == nil {
		n = new(refusals)
		c.of[cause] = n
	}
	n.total++
	n.minutes[c.minute%lately]++
}

// turn begins the minute of now.
func (c *causes) turn(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := now.Unix() / 60
	if c.minute == 0 { // earlier counts belong to the first minute
		c.minute = to
		for _, n := range c.of {
			n.minutes = [lately]uint64{}
			n.minutes[to%lately] = n.total
		}
	}
	for i := max(c.minute+1, to-lately+1); i <= to; i++ {
		for _, n := range c.of {
			n.minutes[i%lately] = 0
		}
	}
	c.minute = max(c.minute, to)
}

// Causes returns the causes of refusals, the most frequent recent ones first.
func (t *Tally) Causes() []Cause {
	c := &t.refused
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Cause, 0, len(c.of))
	for cause, n := range c.of {
		cause.Recent, cause.Total = n.recent(), n.total
		all = append(all, cause)
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Recent, a.Recent), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Text, b.Text))
	})
	return all
}
