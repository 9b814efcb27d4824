// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/server/finding"
	"github.com/sluicegate/sluice/internal/server/history"
	"github.com/sluicegate/sluice/internal/server/report"
	"github.com/sluicegate/sluice/internal/server/tally"
	"github.com/sluicegate/sluice/policy"
)

// Fleet is the answer of GET /v1/fleet: what the nodes that share the store have counted
// together, and each of them.
type Fleet struct {
	Time   time.Time `json:"time"`
	Hidden bool      `json:"hidden,omitempty"` // keys are hashes: the caller has no token
	// Shared is that there is a store which others may share. Where there is none the fleet
	// is this node.
	Shared bool `json:"shared"`
	// AsOf is up to when all nodes that are summed have reported.
	AsOf  time.Time      `json:"as_of"`
	Notes []Note         `json:"notes"`
	Nodes []NodeOverview `json:"nodes"` // by name
	// Summed is how many of Nodes are in the sum, and Unreported how many nodes are alive
	// that are not among Nodes.
	Summed     int         `json:"summed"`
	Unreported int64       `json:"unreported"`
	Requests   Requests    `json:"requests"`
	Rules      []FleetRule `json:"rules"` // in the order of this node's policy
}

// Note is what there is to say of a fleet. Kind is bad where the sum is not one, warn
// where nodes differ or are missing, and note else.
type Note struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// NodeOverview is a node of a fleet.
type NodeOverview struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	This   bool   `json:"this,omitempty"` // the one that was asked
	Listen string `json:"listen,omitempty"`
	// Upstream is where its requests go. Apart is that it has no rule of this node's.
	Upstream string         `json:"upstream,omitempty"`
	Apart    bool           `json:"apart,omitempty"`
	Version  string         `json:"version"` // of the program
	Config   string         `json:"config"`  // version of its configuration's file
	Rules    string         `json:"rules"`   // the same for the same rules, in whatever file
	Current  bool           `json:"current"` // its file as it is now is active
	StoreUp  bool           `json:"store_up"`
	Uptime   float64        `json:"uptime_seconds"`
	Seen     float64        `json:"seen_seconds_ago"`
	Silent   bool           `json:"silent,omitempty"` // it has not reported for long
	Summed   bool           `json:"summed"`
	Why      string         `json:"why,omitempty"` // it is not summed
	Total    history.Counts `json:"total"`         // since its start
}

// FleetRule is what all nodes have counted under a rule. Series, keys and those denied
// most are there where all nodes have reported them.
type FleetRule struct {
	RuleOverview
	// Elsewhere is that this node's configuration has no such rule.
	Elsewhere bool           `json:"elsewhere,omitempty"`
	Lately    history.Counts `json:"lately"`          // in the last 10 minutes
	Nodes     []RuleOfNode   `json:"nodes,omitempty"` // if they were asked for
}

// RuleOfNode is what one node has counted under a rule.
type RuleOfNode struct {
	ID string `json:"id"`
	tally.Counts
	Lately history.Counts `json:"lately"`
}

// fleet answers GET /v1/fleet, with ?rule=NAME of that rule and no other, in full, and
// with ?nodes=1 with what each node has counted under each rule.
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

// list lists the nodes, and returns the reports that are summed: if the store does not
// answer, that of this node alone.
func (f *Fleet) list(self report.Node, others *report.Fleet, own *report.Report) []*report.Report {
	reports := []*report.Report{own}
	this := overviewOf(&self)
	this.This, this.Summed = true, true
	f.Nodes = []NodeOverview{this}
	for i := range others.Nodes {
		s := &others.Nodes[i]
		n := overviewOf(&s.Node)
		n.Seen = round((others.Now.Sub(s.Last) + others.Ago).Seconds())
		n.Apart = self.Apart(&s.Node)
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

func overviewOf(n *report.Node) NodeOverview {
	return NodeOverview{
		ID: n.ID, Name: n.Name, Listen: n.Listen, Upstream: n.Upstream, Version: n.Version, Config: n.Config, Rules: n.Rules, Current: !n.Failed, StoreUp: n.StoreUp,
		Uptime: round(float64(max(n.Clock-n.Started, 0)) / 1000), Total: n.Total,
	}
}

// fleetRules adds the rules of this node's policy, then those that others have.
func (a *API) fleetRules(f *Fleet, sum *report.Sum, rule string, nodes bool) {
	p := a.o.Policy()
	here := make(map[string]bool, p.Len())
	add := func(of *policy.Rule, s *report.RuleSum) {
		fr := FleetRule{Elsewhere: of == nil}
		if of != nil {
			fr.RuleOverview = RuleOverview{RuleStatus: ruleStatus(of, nil), By: byText(of), Failure: of.Failure.String()}
		} else {
			fr.RuleOverview = RuleOverview{RuleStatus: RuleStatus{Name: s.Name, Mode: mode(s.Shadow)}}
		}
		if s != nil {
			a.fleetRule(&fr, f, of, s, rule != "")
		}
		if nodes && s != nil {
			for _, n := range s.Nodes {
				fr.Nodes = append(fr.Nodes, RuleOfNode{ID: n.ID, Counts: countsOf(&n.Counts), Lately: n.Recent})
			}
			slices.SortFunc(fr.Nodes, func(a, b RuleOfNode) int { return cmp.Compare(f.place(a.ID), f.place(b.ID)) })
		}
		f.Rules = append(f.Rules, fr)
	}
	for i := range p.Len() {
		of := p.Rule(i)
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

// place returns where a node is in the list of nodes.
func (f *Fleet) place(id string) int {
	return slices.IndexFunc(f.Nodes, func(n NodeOverview) bool { return n.ID == id })
}

// fleetRule adds the sum of a rule.
func (a *API) fleetRule(fr *FleetRule, f *Fleet, of *policy.Rule, s *report.RuleSum, full bool) {
	fr.Counts, fr.Lately = countsOf(&s.Counts), s.Recent
	for _, c := range s.Candidates {
		fr.Candidates = append(fr.Candidates, tally.CandidateReport{Level: c.Level, Name: c.Name, Evaluated: c.Evaluated, WouldDeny: c.WouldDeny})
		fr.Evaluated += c.Evaluated
		fr.WouldDeny += c.WouldDeny
	}
	if s.Detailed < len(s.Nodes) {
		return // it would not be the sum
	}
	fr.Recent = s.Detail.Recent
	if full {
		fr.Day = s.Detail.Day
	}
	keys := mostTop
	if full {
		keys = mostReported
	}
	for _, l := range s.Top(keys) {
		level := TopLevel{Rule: s.Name, Level: l.Name, Total: l.Total}
		for _, k := range l.Keys {
			level.Keys = append(level.Keys, a.topKey(s.Name, levelOf(of, l.Name), k, f.Hidden))
		}
		fr.Top = append(fr.Top, level)
	}
	if s.Keyed < s.Detailed || s.Detail.Hour == nil {
		return
	}
	hour, day := s.Detail.Hour.Count(), s.Detail.Days.Count()
	fr.KeysHour, fr.KeysDay = keysOverview(&hour), keysOverview(&day)
	fr.Findings = finding.Of(fleetFigures(s, f.AsOf))
}

// levelOf returns a level of a rule by its name, nil if there is none.
func levelOf(r *policy.Rule, name string) *policy.Level {
	if r == nil {
		return nil
	}
	for i := range r.Levels {
		if r.Levels[i].Name == name {
			return &r.Levels[i]
		}
	}
	return nil
}

// topKey returns a key as it is shown. What it is made of says this node's policy: of a
// level that this has not, or that another node has made of other parts, it is one text.
func (a *API) topKey(rule string, l *policy.Level, k report.Key, hidden bool) TopKey {
	key := TopKey{Least: k.Least, Most: k.Most}
	switch {
	case hidden:
		key.Hash = a.hide(rule, k.Key)
	case l == nil:
		key.Parts = map[string]string{"key": k.Key}
	default:
		key.Parts = partsOf(l, k.Key)
	}
	return key
}

// fleetFigures returns what findings about a rule of all nodes rest on.
func fleetFigures(s *report.RuleSum, now time.Time) *finding.Figures {
	hour, day := s.Detail.Hour.Count(), s.Detail.Days.Count()
	hourly, daily := s.Detail.Day.SumSince(hour.Since), s.Detail.Day.SumSince(day.Since)
	f := &finding.Figures{
		Now: now, Since: hour.Since, Allowed: hourly.Passed(), Denied: hourly.Denied, Seen: hour.Seen, DeniedKeys: hour.Denied, Unstated: s.Unstated,
		DaySince: day.Since, DayAllowed: daily.Passed(), DayDenied: daily.Denied, DaySeen: day.Seen, Peak: day.Peak,
	}
	for _, l := range s.Top(tally.Places) {
		for _, k := range l.Keys {
			if k.Recent > 0 {
				f.TopDenials = append(f.TopDenials, k.Recent)
			}
		}
	}
	slices.SortFunc(f.TopDenials, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, c := range s.Candidates {
		if c.Rescued > f.Rescued || c.Rescued == f.Rescued && c.Rescued > 0 && c.Name < f.Candidate {
			f.Candidate, f.Rescued = c.Name, c.Rescued
		}
	}
	return f
}

// busiest returns the rules that are reported in detail: those that were busiest in the
// last sum, or else at this node.
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

// remember has the next answer be in detail about what is busiest in this one.
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
