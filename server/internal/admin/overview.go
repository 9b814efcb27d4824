// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/report"
)

// overview answers GET /v1/overview. With ?rule=NAME it shows only that rule, in full.
func (a *API) overview(_ http.ResponseWriter, r *http.Request) (any, error) {
	rule := r.URL.Query().Get("rule")
	a.o.Tally.Tick(a.o.Now()) // so that the series hold the same requests as the totals
	o := overview.Overview{
		System: a.o.System(), Time: a.o.Now().UTC(), Hidden: !a.authorised(r), Rules: []overview.Rule{},
		Requests:  overview.Requests{Total: a.o.Tally.Total(), Refusals: a.o.Tally.Causes()},
		Overrides: len(a.o.Overrides.All(a.o.Now())),
	}
	o.Memory.History = a.o.Tally.Bytes()
	if recent, day, ok := a.o.Tally.Past(""); ok {
		o.Requests.Recent, o.Requests.Day = &recent, &day
		o.Requests.Problems = overview.Problems(recent.Sum(), o.Requests.Refusals, a.o.Logs())
	}
	p, reports := a.o.Policy(), a.reports()
	top := make(map[string][]overview.TopLevel)
	for _, level := range a.topOf(rule, overview.MostTop, o.Hidden) {
		top[level.Rule] = append(top[level.Rule], level)
	}
	for i := range len(p.Rules()) {
		of := &p.Rules()[i]
		if rule != "" && rule != of.Name {
			continue
		}
		ro := overview.RuleOf(of, reports[of.Name])
		ro.Top = top[of.Name]
		a.lately(&ro, o.Time, rule != "")
		o.Rules = append(o.Rules, ro)
	}
	if rule != "" && len(o.Rules) == 0 {
		return nil, failed(http.StatusNotFound, errors.New("no rule has that name; /v1/overview lists the rules"))
	}
	return o, nil
}

// lately adds the recent outcomes of requests under a rule, and the findings.
func (a *API) lately(o *overview.Rule, now time.Time, full bool) {
	t := a.o.Tally
	recent, day, ok := t.Past(o.Name)
	if !ok {
		return
	}
	o.Recent = &recent
	if full {
		o.Day = &day
	}
	if hour, days, ok := t.Keys(o.Name); ok {
		o.Keyed(now, &day, hour, days, t.Denials(o.Name))
	}
}

// fleet answers GET /v1/fleet. With ?rule=NAME it shows only that rule, in full. With
// ?nodes=1 it adds the counts of each node under each rule.
func (a *API) fleet(_ http.ResponseWriter, r *http.Request) (any, error) {
	o := fleetview.Options{
		Policy: a.o.Policy(), Self: a.self(), Causes: a.o.Tally.Causes(), Logs: a.o.Logs(), Hidden: !a.authorised(r),
		Rule: r.URL.Query().Get("rule"), Nodes: r.URL.Query().Get("nodes") == "1",
	}
	o.Top = func(d *outcome.Denied) overview.TopLevel { return a.topLevel(o.Policy, d, o.Hidden) }
	detailed := []string{o.Rule}
	if o.Rule == "" {
		detailed = a.busiest()
	}
	if a.o.Fleet != nil {
		o.Others = new(a.o.Fleet(r.Context(), detailed))
	}
	o.Now = a.o.Now()
	o.Own = a.o.Tally.Report(o.Policy, o.Now, detailed)
	o.Own.ID = o.Self.ID
	f := fleetview.New(&o)
	if o.Rule != "" && len(f.Rules) == 0 {
		return nil, failed(http.StatusNotFound, errors.New("no node has a rule of that name; /v1/fleet lists the rules"))
	}
	if o.Rule == "" {
		lately := make(map[string]history.Counts, len(f.Rules))
		for i := range f.Rules {
			lately[f.Rules[i].Name] = f.Rules[i].Lately
		}
		a.detailed.Store(new(fleetview.Busiest(lately)))
	}
	return f, nil
}

// self returns this node's line.
func (a *API) self() report.Node {
	if a.o.Self == nil {
		return report.Node{ID: "this", Name: "this node", StoreUp: true, Rules: overview.RulesHash(a.o.Policy()), Total: a.o.Tally.Total()}
	}
	return a.o.Self()
}

// busiest returns the rules to report in detail: the busiest in the last sum, or else at
// this node.
func (a *API) busiest() []string {
	if last := a.detailed.Load(); last != nil {
		return *last
	}
	lately := make(map[string]history.Counts)
	for name := range a.o.Tally.Totals() {
		recent, _, _ := a.o.Tally.Past(name)
		lately[name] = recent.Sum()
	}
	return fleetview.Busiest(lately)
}
