// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/server/history"
	"github.com/sluicegate/sluice/internal/server/sketch"
	"github.com/sluicegate/sluice/internal/server/tally"
)

// Sum is what several nodes have counted together.
type Sum struct {
	Total       history.Counts
	Recent, Day *history.Series
	Rules       []*RuleSum // in the order in which they came
	More        int        // rules of nodes that are left out: the most of one node
	Nodes       int        // that are summed

	now    time.Time
	secret string
	rules  map[string]*RuleSum
}

// RuleSum is a rule of them.
type RuleSum struct {
	Rule
	Nodes []NodeCounts
	// Detailed is how many nodes have reported details, and Keyed how many of them their
	// keys. What fewer than all have reported is not the sum.
	Detailed, Keyed int

	levels map[string]*levelSum
}

// NodeCounts is what one node has counted.
type NodeCounts struct {
	ID string `json:"id"`
	tally.Counts
	Recent history.Counts `json:"lately"`
}

// levelSum is the keys of a level that several nodes have listed.
type levelSum struct {
	tally.Denied
	keys map[string]*keySum
}

type keySum struct {
	tally.KeyCount
	rest uint64 // what the nodes that have listed it say of others
}

// NewSum returns a sum of nothing at a moment, of nodes that hash keys under a secret.
func NewSum(now time.Time, secret string) *Sum {
	return &Sum{
		now: now, secret: secret, rules: make(map[string]*RuleSum),
		Recent: history.TotalFine.Empty(now), Day: history.TotalCoarse.Empty(now),
	}
}

// Add adds what a node reports, which stays as it is.
func (s *Sum) Add(r *Report) {
	s.Nodes++
	s.Total = s.Total.Plus(r.Total)
	addSeries(s.Recent, r.Recent)
	addSeries(s.Day, r.Day)
	s.More = max(s.More, r.More)
	for i := range r.Rules {
		rule := &r.Rules[i]
		of := s.rules[rule.Name]
		if of == nil {
			of = &RuleSum{Rule: Rule{Name: rule.Name, Shadow: rule.Shadow}, levels: make(map[string]*levelSum)}
			s.rules[rule.Name] = of
			s.Rules = append(s.Rules, of)
		}
		of.add(r.ID, rule)
		if d := rule.Detail; d != nil {
			of.detail(d, s.now, s.secret == r.Hashed)
		}
	}
}

// Rule returns the sum of a rule, nil if no node has counted something for it.
func (s *Sum) Rule(name string) *RuleSum { return s.rules[name] }

func addSeries(to, from *history.Series) {
	if from != nil {
		to.Add(from)
	}
}

func (s *RuleSum) add(id string, r *Rule) {
	s.Nodes = append(s.Nodes, NodeCounts{id, r.Counts, r.Recent})
	s.Counts = s.Counts.Plus(r.Counts)
	s.Recent = s.Recent.Plus(r.Recent)
	s.Unstated += r.Unstated
	for _, c := range r.Candidates {
		i := slices.IndexFunc(s.Candidates, func(o tally.CandidateReport) bool { return o.Level == c.Level && o.Name == c.Name })
		if i < 0 {
			s.Candidates = append(s.Candidates, c)
			continue
		}
		sum := &s.Candidates[i]
		sum.Evaluated += c.Evaluated
		sum.WouldDeny += c.WouldDeny
		sum.Rescued += c.Rescued
	}
}

func (s *RuleSum) detail(d *Detail, now time.Time, sameKeys bool) {
	s.Detailed++
	if s.Detail == nil {
		s.Detail = &Detail{Recent: history.RuleFine.Empty(now), Day: history.RuleCoarse.Empty(now)}
	}
	addSeries(s.Detail.Recent, d.Recent)
	addSeries(s.Detail.Day, d.Day)
	if sameKeys && d.Hour != nil && d.Days != nil && mergeInto(&s.Detail.Hour, d.Hour) && mergeInto(&s.Detail.Days, d.Days) {
		s.Keyed++
	}
	for i := range d.Top {
		l := &d.Top[i]
		of := s.levels[l.Level]
		if of == nil {
			of = &levelSum{Denied: tally.Denied{Rule: s.Name, Level: l.Level}, keys: make(map[string]*keySum)}
			s.levels[l.Level] = of
		}
		of.add(l)
	}
}

func mergeInto(to **sketch.Sum, from *sketch.Sum) bool {
	if *to == nil {
		*to = from.Clone()
		return true
	}
	return (*to).Merge(from)
}

func (s *levelSum) add(l *tally.Denied) {
	s.Total += l.Total
	s.Recent += l.Recent
	s.Rest += l.Rest
	for _, k := range l.Keys {
		of := s.keys[k.Key]
		if of == nil {
			of = &keySum{KeyCount: tally.KeyCount{Key: k.Key}}
			s.keys[k.Key] = of
		}
		of.Least += k.Least
		of.Most += k.Most
		of.Recent += k.Recent
		of.rest += l.Rest
	}
}

// Report returns the counts of the rule, nil of none.
func (s *RuleSum) Report() *tally.Report {
	if s == nil {
		return nil
	}
	return &tally.Report{Rule: s.Name, Counts: s.Counts, Candidates: s.Candidates}
}

// Denials returns what is known of recent denials.
func (s *RuleSum) Denials() tally.Denials {
	d := tally.Denials{Unstated: s.Unstated, Rescued: make(map[string]uint64)}
	for _, l := range s.Top(tally.Places) {
		for _, k := range l.Keys {
			if k.Recent > 0 {
				d.Keys = append(d.Keys, k.Recent)
			}
		}
	}
	slices.SortFunc(d.Keys, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, c := range s.Candidates {
		d.Rescued[c.Name] = max(d.Rescued[c.Name], c.Rescued)
	}
	return d
}

// Top returns the n keys that were denied most of each level, by the levels' names. A
// node that has not listed a key may have denied it as often as it says of others.
func (s *RuleSum) Top(n int) []tally.Denied {
	var all []tally.Denied
	for _, of := range s.levels {
		l := of.Denied
		for _, sum := range of.keys {
			k := sum.KeyCount
			k.Most += of.Rest - sum.rest
			l.Keys = append(l.Keys, k)
		}
		slices.SortFunc(l.Keys, func(a, b tally.KeyCount) int {
			return cmp.Or(cmp.Compare(b.Least, a.Least), cmp.Compare(b.Most, a.Most), cmp.Compare(a.Key, b.Key))
		})
		l.Keys = l.Keys[:min(n, len(l.Keys))]
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b tally.Denied) int { return cmp.Compare(a.Level, b.Level) })
	return all
}
