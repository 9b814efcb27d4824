// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/history"
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
	AsOf  time.Time      `json:"as_of"`
	Notes []Note         `json:"notes"`
	Nodes []NodeOverview `json:"nodes"` // by name
	// Summed is the number of Nodes in the sum. Unreported is the number of live nodes that
	// are not among Nodes.
	Summed     int         `json:"summed"`
	Unreported int64       `json:"unreported"`
	Requests   Requests    `json:"requests"`
	Rules      []FleetRule `json:"rules"` // in the order of this node's policy
}

// Note is a remark about a fleet. Its Kind is "bad" if the sum is wrong, "warn" if nodes
// differ or are missing, and "note" otherwise.
type Note struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// NodeOverview is a node of a fleet.
type NodeOverview struct {
	report.Node
	This   bool    `json:"this,omitempty"`  // the one that was asked
	Apart  bool    `json:"apart,omitempty"` // it has no rule of this node's
	Seen   float64 `json:"seen_seconds_ago"`
	Silent bool    `json:"silent,omitempty"` // it has not reported for long
	Summed bool    `json:"summed"`
	Why    string  `json:"why,omitempty"` // it is not summed
}

// FleetRule is the sum of the counts of all nodes under a rule. It has series, keys and the
// keys denied most only if all nodes have reported them.
type FleetRule struct {
	RuleOverview
	// Elsewhere reports that this node's configuration has no such rule.
	Elsewhere bool                `json:"elsewhere,omitempty"`
	Lately    history.Counts      `json:"lately"`          // in the last 10 minutes
	Nodes     []report.NodeCounts `json:"nodes,omitempty"` // if they were asked for
}

// fleet answers GET /v1/fleet. With ?rule=NAME it shows only that rule, in full. With
// ?nodes=1 it adds the counts of each node under each rule.
func (a *API) fleet(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	rule := r.URL.Query().Get("rule")
	looked := []string{rule}
	if rule == "" {
		looked = a.busiest()
	}
	var others report.Fleet
	if a.o.Fleet != nil {
		others = a.o.Fleet(r.Context(), looked)
	}
	now := a.o.Now().UTC()
	f := &Fleet{Time: now, AsOf: now, Hidden: !a.authorised(r), Shared: a.o.Fleet != nil, Notes: []Note{}, Rules: []FleetRule{}}
	own := ReportOf(a.o.Tally, a.o.Policy(), a.o.Now(), looked)
	self := a.self()
	own.ID = self.ID
	reports := f.list(self, &others, own)
	sum := report.NewSum(f.AsOf, own.Hashed)
	for _, of := range reports {
		sum.Add(of)
	}
	f.Summed = sum.Nodes
	f.Requests = Requests{Total: sum.Total, Recent: sum.Recent, Day: sum.Day, Refusals: a.o.Tally.Causes()}
	if sum.Recent != nil {
		f.Requests.Problems = problems(sum.Recent.Sum(), f.Requests.Refusals, a.logs())
	}
	a.fleetRules(f, sum, rule, rule != "" || r.URL.Query().Get("nodes") == "1")
	if rule != "" && len(f.Rules) == 0 {
		fail(w, http.StatusNotFound, errors.New("no node has a rule of that name; see /v1/fleet for those that are"))
		return
	}
	if rule == "" {
		a.remember(f.Rules)
	}
	f.note(&self, &others, sum)
	answer(w, http.StatusOK, f)
}

// self returns this node's line.
func (a *API) self() report.Node {
	if a.o.Self == nil {
		return report.Node{ID: "this", Name: "this node", StoreUp: true, Rules: RulesHash(a.o.Policy()), Total: a.o.Tally.Total()}
	}
	return a.o.Self()
}

// list lists the nodes, and returns the reports that are summed. If the store does not
// answer, that is the report of this node alone.
func (f *Fleet) list(self report.Node, others *report.Fleet, own *report.Report) []*report.Report {
	reports := []*report.Report{own}
	f.Nodes = []NodeOverview{{Node: self, This: true, Summed: true}}
	for i := range others.Nodes {
		s := &others.Nodes[i]
		n := NodeOverview{Node: s.Node, Apart: self.Apart(&s.Node), Seen: round((others.Now.Sub(s.Last) + others.Ago).Seconds())}
		switch n.Silent = others.Silent(s); {
		case others.Err != nil:
			n.Why = "the store does not answer"
		case n.Silent:
			n.Why = "it does not report any more"
		case s.Fault != nil:
			n.Why = "its report is not usable: " + s.Fault.Error()
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
	slices.SortFunc(f.Nodes, func(a, b NodeOverview) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Listen, b.Listen), cmp.Compare(a.ID, b.ID))
	})
	return reports
}

// fleetRules adds the rules of this node's policy, then those of other nodes.
func (a *API) fleetRules(f *Fleet, sum *report.Sum, rule string, nodes bool) {
	p := a.o.Policy()
	here := make(map[string]bool, len(p.Rules()))
	add := func(of *policy.Rule, s *report.RuleSum) {
		fr := FleetRule{Elsewhere: of == nil}
		if of != nil {
			fr.RuleOverview = ruleOverview(of, s.Report())
		} else {
			fr.RuleOverview = ruleOverview(&policy.Rule{Name: s.Name, Shadow: s.Shadow}, s.Report())
			fr.Failure = ""
		}
		if s != nil {
			fr.Lately = s.Recent
			a.detail(&fr.RuleOverview, f, p, s, rule != "")
		}
		if nodes && s != nil {
			fr.Nodes = slices.SortedFunc(slices.Values(s.Nodes), func(a, b report.NodeCounts) int { return cmp.Compare(f.place(a.ID), f.place(b.ID)) })
		}
		f.Rules = append(f.Rules, fr)
	}
	for i := range len(p.Rules()) {
		of := &p.Rules()[i]
		here[of.Name] = true
		if rule == "" || rule == of.Name {
			add(of, sum.Rule(of.Name))
		}
	}
	for _, s := range sum.Rules {
		if !here[s.Name] && (rule == "" || rule == s.Name) {
			add(nil, s)
		}
	}
}

// place returns the index of a node in the list of nodes.
func (f *Fleet) place(id string) int {
	return slices.IndexFunc(f.Nodes, func(n NodeOverview) bool { return n.ID == id })
}

// detail adds the details of a rule that all nodes have reported.
func (a *API) detail(o *RuleOverview, f *Fleet, p *policy.Policy, s *report.RuleSum, full bool) {
	if s.Detailed < len(s.Nodes) {
		return // details of fewer nodes are not the sum
	}
	o.Recent = s.Detail.Recent
	if full {
		o.Day = s.Detail.Day
	}
	keys := mostTop
	if full {
		keys = mostReported
	}
	for _, d := range s.Top(keys) {
		o.Top = append(o.Top, a.topLevel(p, &d, f.Hidden))
	}
	if s.Keyed == s.Detailed && s.Detail.Hour != nil {
		o.keyed(f.AsOf, s.Detail.Day, s.Detail.Hour, s.Detail.Days, s.Denials())
	}
}

// busiest returns the rules to report in detail: the busiest in the last sum, or else at
// this node.
func (a *API) busiest() []string {
	if last := a.detailed.Load(); last != nil {
		return *last
	}
	var all []FleetRule
	for name := range a.o.Tally.Totals() {
		fr := FleetRule{RuleOverview: RuleOverview{RuleStatus: RuleStatus{Name: name}}}
		if recent, _, ok := a.o.Tally.Past(name); ok {
			fr.Lately = recent.Sum()
		}
		all = append(all, fr)
	}
	return busiestOf(all)
}

// remember makes the busiest rules of this answer the detailed ones of the next.
func (a *API) remember(rules []FleetRule) {
	names := busiestOf(rules)
	a.detailed.Store(&names)
}

func busiestOf(rules []FleetRule) []string {
	order := slices.SortedFunc(slices.Values(rules), func(a, b FleetRule) int {
		return cmp.Or(busier(a.Lately, b.Lately), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for i := range order[:min(mostDetailed, len(order))] {
		names = append(names, order[i].Name)
	}
	return names
}
