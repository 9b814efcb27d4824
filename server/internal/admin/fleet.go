// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/report"
)

// fleet answers GET /v1/fleet. With ?rule=NAME it shows only that rule, in full. With
// ?nodes=1 it adds the counts of each node under each rule.
func (a *API) fleet(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	o := fleetview.Options{
		Policy: a.o.Policy(), Self: a.self(), Causes: a.o.Tally.Causes(), Logs: a.logs(), Hidden: !a.authorised(r),
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
		fail(w, http.StatusNotFound, errors.New("no node has a rule of that name; see /v1/fleet for those that are"))
		return
	}
	if o.Rule == "" {
		lately := make(map[string]history.Counts, len(f.Rules))
		for i := range f.Rules {
			lately[f.Rules[i].Name] = f.Rules[i].Lately
		}
		a.detailed.Store(new(fleetview.Busiest(lately)))
	}
	answer(w, http.StatusOK, f)
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
