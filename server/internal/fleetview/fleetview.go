// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/report"
)

// Fleet is the answer of GET /v1/fleet: the sum of the counts of the nodes that share the
// store, and each of the nodes.
type Fleet struct {
	Time   time.Time `json:"time"`
	Hidden bool      `json:"hidden,omitempty"` // keys are hashes: the caller has no token
	// Shared reports whether the store may have other nodes. Otherwise the fleet is this
	// node.
	Shared bool `json:"shared"`
	// AsOf is the time up to which all summed nodes have reported.
	AsOf  time.Time `json:"as_of"`
	Notes []Note    `json:"notes"`
	Nodes []Node    `json:"nodes"` // by name
	// Summed is the number of Nodes in the sum. Unreported is the number of live nodes that
	// are not among Nodes.
	Summed     int               `json:"summed"`
	Unreported int64             `json:"unreported"`
	Requests   overview.Requests `json:"requests"`
	Rules      []Rule            `json:"rules"` // in the order of this node's policy
}

// Note is a remark about a fleet. Its Kind is "bad" if the sum is wrong, "warn" if nodes
// differ or are missing, and "note" otherwise.
type Note struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Node is a node of a fleet.
type Node struct {
	report.Node
	This   bool    `json:"this,omitempty"`  // the one that was asked
	Apart  bool    `json:"apart,omitempty"` // it shares no rule with this node
	Seen   float64 `json:"seen_seconds_ago"`
	Silent bool    `json:"silent,omitempty"` // it has not reported for long
	Summed bool    `json:"summed"`
	Why    string  `json:"why,omitempty"` // it is not summed
}

// Rule is the sum of the counts of all nodes under a rule. It has series, keys and the
// keys denied most only if all nodes have reported them.
type Rule struct {
	overview.Rule
	// Elsewhere reports that this node's configuration has no such rule.
	Elsewhere bool                `json:"elsewhere,omitempty"`
	Lately    history.Counts      `json:"lately"`          // in the last 10 minutes
	Nodes     []report.NodeCounts `json:"nodes,omitempty"` // if they were asked for
}

// Options are the parts of a [Fleet].
type Options struct {
	Policy *policy.Policy // of this node
	Now    time.Time
	Self   report.Node
	Own    *report.Report // of this node
	Others *report.Fleet  // nil: the store is in this process
	Causes []outcome.Cause
	Logs   []overview.Log // that cannot be written
	// Top returns the keys of a level in the form in which they are shown; if Hidden, hashed.
	Top    func(*outcome.Denied) overview.TopLevel
	Hidden bool
	// Rule is the only rule that is shown, in full; empty: all are. Nodes adds the counts of
	// each node under each rule.
	Rule  string
	Nodes bool
}

// New returns the fleet.
func New(o *Options) *Fleet {
	now := o.Now.UTC()
	f := &Fleet{Time: now, AsOf: now, Hidden: o.Hidden, Shared: o.Others != nil, Notes: []Note{}, Rules: []Rule{}}
	others := o.Others
	if others == nil {
		others = new(report.Fleet)
	}
	reports := f.list(o.Self, others, o.Own)
	sum := report.NewSum(f.AsOf, o.Own.Hashed)
	for _, of := range reports {
		sum.Add(of)
	}
	f.Summed = sum.Nodes
	f.Requests = overview.Requests{Total: sum.Total, Recent: sum.Recent, Day: sum.Day, Refusals: o.Causes}
	if sum.Recent != nil {
		f.Requests.Problems = overview.Problems(sum.Recent.Sum(), o.Causes, o.Logs)
	}
	f.rules(o, sum)
	f.note(&o.Self, others, sum)
	return f
}

// list lists the nodes, and returns the reports that are summed. If the store does not
// answer, that is the report of this node alone.
func (f *Fleet) list(self report.Node, others *report.Fleet, own *report.Report) []*report.Report {
	reports := []*report.Report{own}
	f.Nodes = []Node{{Node: self, This: true, Summed: true}}
	for i := range others.Nodes {
		s := &others.Nodes[i]
		n := Node{Node: s.Node, Apart: self.Apart(&s.Node), Seen: round((others.Now.Sub(s.Last) + others.Ago).Seconds())}
		switch n.Silent = others.Silent(s); {
		case others.Err != nil:
			n.Why = "the store does not answer"
		case n.Silent:
			n.Why = "it no longer reports"
		case s.Fault != nil:
			n.Why = "its report cannot be used: " + s.Fault.Error()
		case s.Report == nil:
			n.Why = "it has not reported yet"
		default:
			n.Summed = true
			reports = append(reports, s.Report)
			if at := f.Time.Add(s.At.Sub(others.Now) - others.Ago); at.Before(f.AsOf) {
				f.AsOf = at
			}
		}
		f.Nodes = append(f.Nodes, n)
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Listen, b.Listen), cmp.Compare(a.ID, b.ID))
	})
	return reports
}

// rules adds the rules of this node's policy, then those of other nodes.
func (f *Fleet) rules(o *Options, sum *report.Sum) {
	here := make(map[string]bool, len(o.Policy.Rules()))
	add := func(of *policy.Rule, s *report.RuleSum) {
		r := Rule{Elsewhere: of == nil}
		if of != nil {
			r.Rule = overview.RuleOf(of, s.Report())
		} else {
			r.Rule = overview.RuleOf(&policy.Rule{Name: s.Name, Shadow: s.Shadow}, s.Report())
			r.Failure = ""
		}
		if s != nil {
			r.Lately = s.Recent
			r.detail(f.AsOf, o, s)
		}
		if (o.Nodes || o.Rule != "") && s != nil {
			r.Nodes = slices.SortedFunc(slices.Values(s.Nodes), func(a, b report.NodeCounts) int { return cmp.Compare(f.place(a.ID), f.place(b.ID)) })
		}
		f.Rules = append(f.Rules, r)
	}
	for i := range len(o.Policy.Rules()) {
		of := &o.Policy.Rules()[i]
		here[of.Name] = true
		if o.Rule == "" || o.Rule == of.Name {
			add(of, sum.Rule(of.Name))
		}
	}
	for _, s := range sum.Rules {
		if !here[s.Name] && (o.Rule == "" || o.Rule == s.Name) {
			add(nil, s)
		}
	}
}

// place returns the index of a node in the list of nodes.
func (f *Fleet) place(id string) int {
	return slices.IndexFunc(f.Nodes, func(n Node) bool { return n.ID == id })
}

// detail adds the details of a rule that all nodes have reported.
func (r *Rule) detail(asOf time.Time, o *Options, s *report.RuleSum) {
	if s.Detailed < len(s.Nodes) {
		return // details of fewer nodes are not the sum
	}
	r.Recent = s.Detail.Recent
	most := overview.MostTop
	if o.Rule != "" {
		r.Day, most = s.Detail.Day, report.MostKeys
	}
	for _, d := range s.Top(most) {
		r.Top = append(r.Top, o.Top(&d))
	}
	if s.Keyed == s.Detailed && s.Detail.Hour != nil {
		r.Keyed(asOf, s.Detail.Day, s.Detail.Hour, s.Detail.Days, s.Denials())
	}
}

const mostDetailed = 16 // rules

// Busiest returns the names of the rules that nodes report in detail if none is named, from the
// recent counts of each rule: those with most denials, then those with most requests.
func Busiest(lately map[string]history.Counts) []string {
	order := slices.SortedFunc(maps.Keys(lately), func(a, b string) int {
		return cmp.Or(report.Busier(lately[a], lately[b]), cmp.Compare(a, b))
	})
	return order[:min(mostDetailed, len(order))]
}

// round rounds to one decimal.
func round(x float64) float64 { return float64(int64(x*10+0.5)) / 10 }
