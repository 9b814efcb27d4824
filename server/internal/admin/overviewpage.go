// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/finding"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

const mostTop = 5 // keys of each level in an overview

var errUnreadable = errors.New("this is for callers on this machine, or with the token: send Authorization: Bearer TOKEN")

// readable reports whether a caller may see data without keys in clear: callers on this
// machine, or with the token. It answers other callers itself.
func (a *API) readable(w http.ResponseWriter, r *http.Request) bool {
	if a.authorised(r) || local(r) {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	fail(w, http.StatusUnauthorized, errUnreadable)
	return false
}

// overview answers GET /v1/overview. With ?rule=NAME it shows only that rule, in full.
func (a *API) overview(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	rule := r.URL.Query().Get("rule")
	a.o.Tally.Tick(a.o.Now()) // so that the series hold the same requests as the totals
	o := Overview{
		Time: a.o.Now().UTC(), Hidden: !a.authorised(r), Rules: []RuleOverview{},
		Requests:  Requests{Total: a.o.Tally.Total(), Refusals: a.o.Tally.Causes()},
		Overrides: len(a.o.Overrides.All(a.o.Now())),
	}
	if a.o.System != nil {
		o.System = a.o.System()
	}
	o.Memory.History = a.o.Tally.Bytes()
	if recent, day, ok := a.o.Tally.Past(""); ok {
		o.Requests.Recent, o.Requests.Day = &recent, &day
		o.Requests.Problems = problems(recent.Sum(), o.Requests.Refusals, a.logs())
	}
	p, reports := a.o.Policy(), a.reports()
	top := make(map[string][]TopLevel)
	for _, level := range a.topOf(rule, mostTop, o.Hidden) {
		top[level.Rule] = append(top[level.Rule], level)
	}
	for i := range len(p.Rules()) {
		of := &p.Rules()[i]
		if rule != "" && rule != of.Name {
			continue
		}
		ro := ruleOverview(of, reports[of.Name])
		ro.Top = top[of.Name]
		a.lately(&ro, o.Time, rule != "")
		o.Rules = append(o.Rules, ro)
	}
	if rule != "" && len(o.Rules) == 0 {
		fail(w, http.StatusNotFound, errors.New("there is no rule of that name; see /v1/overview for those that are"))
		return
	}
	answer(w, http.StatusOK, o)
}

// ruleOverview describes a rule with its counts. report is nil if nothing was counted.
func ruleOverview(r *policy.Rule, report *outcome.Report) RuleOverview {
	o := RuleOverview{RuleStatus: ruleStatus(r, report), By: byText(r), Failure: r.Failure.String()}
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

// lately adds the recent outcomes of requests under a rule, and the findings.
func (a *API) lately(o *RuleOverview, now time.Time, full bool) {
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
		o.keyed(now, &day, hour, days, t.Denials(o.Name))
	}
}

// keyed adds the number of the rule's keys, and the findings.
func (o *RuleOverview) keyed(now time.Time, past *history.Series, hourKeys, dayKeys *sketch.Sum, denials history.Denials) {
	hour, day := hourKeys.Count(), dayKeys.Count()
	o.KeysHour, o.KeysDay = &hour, &day
	o.Findings = finding.Of(&finding.Figures{
		Now: now, Hour: hour, Day: day, Hourly: past.SumSince(hour.Since), Daily: past.SumSince(day.Since), Denials: denials,
	})
}

// round rounds to one decimal.
func round(x float64) float64 { return float64(int64(x*10+0.5)) / 10 }
