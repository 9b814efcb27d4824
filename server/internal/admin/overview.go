// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/server/internal/overview"
)

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
	o := overview.Overview{
		Time: a.o.Now().UTC(), Hidden: !a.authorised(r), Rules: []overview.Rule{},
		Requests:  overview.Requests{Total: a.o.Tally.Total(), Refusals: a.o.Tally.Causes()},
		Overrides: len(a.o.Overrides.All(a.o.Now())),
	}
	if a.o.System != nil {
		o.System = a.o.System()
	}
	o.Memory.History = a.o.Tally.Bytes()
	if recent, day, ok := a.o.Tally.Past(""); ok {
		o.Requests.Recent, o.Requests.Day = &recent, &day
		o.Requests.Problems = overview.Problems(recent.Sum(), o.Requests.Refusals, a.logs())
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
		fail(w, http.StatusNotFound, errors.New("there is no rule of that name; see /v1/overview for those that are"))
		return
	}
	answer(w, http.StatusOK, o)
}

// logs returns the logs that cannot be written.
func (a *API) logs() []overview.Log {
	if a.o.Logs == nil {
		return nil
	}
	return a.o.Logs()
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
