// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// Sum is the sum of the counts of several nodes.
type Sum struct {
	Total       history.Counts
	Recent, Day *history.Series
	Rules       []*RuleSum // in the order of the reports
	More        int        // the largest number of rules that a node has left out
	Nodes       int        // number of summed nodes

	now    time.Time
	secret string
	rules  map[string]*RuleSum
}

// RuleSum is the sum of the counts under a rule.
type RuleSum struct {
	Rule
	Nodes []NodeCounts
	// Detailed is the number of nodes that have reported details, and Keyed the number of
	// those that have reported keys. Parts that not all nodes have reported are no sum.
	Detailed, Keyed int

	levels map[string]*levelSum
}

// NodeCounts holds the counts of one node.
type NodeCounts struct {
	ID string `json:"id"`
	outcome.Counts
	Recent history.Counts `json:"lately"`
}

// levelSum is the keys of a level that several nodes have listed.
type levelSum struct {
	outcome.Denied
	keys map[string]*keySum
}

type keySum struct {
	outcome.KeyCount
	rest uint64 // sum of Rest of the nodes that have listed the key
}

// NewSum returns an empty sum at a moment, for nodes that hash keys with a secret.
func NewSum(now time.Time, secret string) *Sum {
	return &Sum{
		now: now, secret: secret, rules: make(map[string]*RuleSum),
		Recent: history.TotalFine.Empty(now), Day: history.TotalCoarse.Empty(now),
	}
}

// Add adds the report of a node. It does not change the report.
func (s *Sum) Add(r *Report) {
	s.Nodes++
	s.Total = s.Total.Plus(r.Total)
	s.Recent.Add(r.Recent)
	s.Day.Add(r.Day)
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

// Rule returns the sum of a rule, nil if no node has counted requests under it.
func (s *Sum) Rule(name string) *RuleSum { return s.rules[name] }

func (s *RuleSum) add(id string, r *Rule) {
	s.Nodes = append(s.Nodes, NodeCounts{id, r.Counts, r.Recent})
	s.Counts = s.Counts.Plus(r.Counts)
	s.Recent = s.Recent.Plus(r.Recent)
	s.Unstated += r.Unstated
	for _, c := range r.Candidates {
		i := slices.IndexFunc(s.Candidates, func(o outcome.CandidateReport) bool { return o.Level == c.Level && o.Name == c.Name })
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
	s.Detail.Recent.Add(d.Recent)
	s.Detail.Day.Add(d.Day)
	if sameKeys && d.Hour != nil && d.Days != nil && mergeInto(&s.Detail.Hour, d.Hour) && mergeInto(&s.Detail.Days, d.Days) {
		s.Keyed++
	}
	for i := range d.Top {
		l := &d.Top[i]
		of := s.levels[l.Level]
		if of == nil {
			of = &levelSum{Denied: outcome.Denied{Rule: s.Name, Level: l.Level}, keys: make(map[string]*keySum)}
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

func (s *levelSum) add(l *outcome.Denied) {
	s.Total += l.Total
	s.Recent += l.Recent
	s.Rest += l.Rest
	for _, k := range l.Keys {
		of := s.keys[k.Key]
		if of == nil {
			of = &keySum{KeyCount: outcome.KeyCount{Key: k.Key}}
			s.keys[k.Key] = of
		}
		of.Least += k.Least
		of.Most += k.Most
		of.Recent += k.Recent
		of.rest += l.Rest
	}
}

// Report returns the counts of the rule, nil for a nil sum.
func (s *RuleSum) Report() *outcome.Report {
	if s == nil {
		return nil
	}
	return &outcome.Report{Rule: s.Name, Counts: s.Counts, Candidates: s.Candidates}
}

// Denials returns the recent denials.
func (s *RuleSum) Denials() history.Denials {
	d := history.Denials{Unstated: s.Unstated, Rescued: make(map[string]uint64)}
	for _, l := range s.Top(outcome.Places) {
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

// Top returns the n keys of each level that were denied most, sorted by the levels' names. A
// node that has not listed a key may have denied it as often as its bound for other keys.
func (s *RuleSum) Top(n int) []outcome.Denied {
	var all []outcome.Denied
	for _, of := range s.levels {
		l := of.Denied
		for _, sum := range of.keys {
			k := sum.KeyCount
			k.Most += of.Rest - sum.rest
			l.Keys = append(l.Keys, k)
		}
		slices.SortFunc(l.Keys, func(a, b outcome.KeyCount) int {
			return cmp.Or(cmp.Compare(b.Least, a.Least), cmp.Compare(b.Most, a.Most), cmp.Compare(a.Key, b.Key))
		})
		l.Keys = l.Keys[:min(n, len(l.Keys))]
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b outcome.Denied) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// Busier orders rules by their denials, then by their requests, most first.
func Busier(a, b history.Counts) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests()+b.WouldDeny, a.Requests()+a.WouldDeny))
}
