// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/reload"
)

// Status is the answer of GET /policy.
type Status struct {
	reload.Version
	// Failure is the reason why the present file is not active; empty if it is.
	Failure   string           `json:"failure,omitempty"`
	Rules     []RuleStatus     `json:"rules"`
	Overrides []StoredOverride `json:"overrides"` // beside those of the configuration
	// Unconfirmed reports that other nodes of the store may have other overrides by now:
	// the store cannot be reached, and this node uses the overrides that it has.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// RuleStatus is the outcomes of requests under a rule.
type RuleStatus struct {
	Name   string   `json:"name"`
	Mode   string   `json:"mode"` // enforce or shadow
	Limits []string `json:"limits"`
	outcome.Counts
	Candidates []outcome.CandidateReport `json:"candidates,omitempty"`
}

func (a *API) policy(w http.ResponseWriter, _ *http.Request) {
	v, failure := a.o.Version()
	s := Status{Version: v, Overrides: a.o.Overrides.All(a.o.Now())}
	if failure != nil {
		s.Failure = failure.Error()
	}
	if a.o.Records != nil {
		s.Unconfirmed = !a.o.Records.Synced()
	}
	p := a.o.Policy()
	for i := range s.Overrides {
		o := &s.Overrides[i]
		if l := levelOf(p, o.Rule, o.Level); l != nil && has(l, o.Key) {
			o.Parts = named(l.Level, o.Key)
		}
		o.ThisNodeOnly = a.o.Records != nil && o.Version == ""
		o.Unused = a.o.Overrides.Problem(o)
	}
	reports := a.reports()
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		s.Rules = append(s.Rules, ruleStatus(r, reports[r.Name]))
	}
	answer(w, http.StatusOK, s)
}

// reports returns the counts by rule.
func (a *API) reports() map[string]*outcome.Report {
	reports := make(map[string]*outcome.Report)
	for _, r := range a.o.Tally.Reports() {
		reports[r.Rule] = &r
	}
	return reports
}

// ruleStatus describes a rule with its counts. report is nil if nothing was counted.
func ruleStatus(r *policy.Rule, report *outcome.Report) RuleStatus {
	s := RuleStatus{Name: r.Name, Mode: mode(r.Shadow)}
	if report != nil {
		s.Counts, s.Candidates = report.Counts, report.Candidates
	}
	for j := range r.Levels {
		for _, limit := range r.Levels[j].Limits {
			limit.Limit = r.Counted(limit.Limit)
			s.Limits = append(s.Limits, limit.String())
		}
		if r.Levels[j].Unlimited {
			s.Limits = append(s.Limits, "none")
		}
	}
	return s
}

func mode(shadow bool) string {
	if shadow {
		return "shadow"
	}
	return "enforce"
}

// Top is the answer of GET /v1/top.
type Top struct {
	Levels []TopLevel `json:"levels"`
	Hidden bool       `json:"hidden,omitempty"` // keys are hashes: the caller has no token
}

// TopLevel holds the keys of a rule's level that were denied most.
type TopLevel struct {
	Rule  string   `json:"rule"`
	Level string   `json:"level,omitempty"`
	Total uint64   `json:"total"` // denials
	Keys  []TopKey `json:"keys"`
}

// TopKey is a key that was denied at least Least and at most Most times.
type TopKey struct {
	Parts map[string]string `json:"parts,omitempty"`
	Hash  string            `json:"hash,omitempty"` // instead of the parts
	Least uint64            `json:"least"`
	Most  uint64            `json:"most"`
}

func (a *API) top(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	n := 10
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > outcome.Places {
			answer(w, http.StatusBadRequest, Error{Error: "n must be 1 to " + strconv.Itoa(outcome.Places)})
			return
		}
	}
	t := Top{Hidden: !a.authorised(r)}
	t.Levels = a.topOf(r.URL.Query().Get("rule"), n, t.Hidden)
	answer(w, http.StatusOK, t)
}

// topOf returns the n keys denied most of each level, of all rules if rule is
// empty.
func (a *API) topOf(rule string, n int, hidden bool) []TopLevel {
	p := a.o.Policy()
	all := []TopLevel{}
	for _, d := range a.o.Tally.Top(rule, n) {
		if levelOf(p, d.Rule, d.Level) != nil { // otherwise a reload has just removed it
			all = append(all, a.topLevel(p, &d, hidden))
		}
	}
	return all
}

// topLevel returns the keys of a level in the form in which they are shown. This node's
// policy names their parts. If it does not have the level, or another node uses other parts,
// a key is one text.
func (a *API) topLevel(p *policy.Policy, d *outcome.Denied, hidden bool) TopLevel {
	l := levelOf(p, d.Rule, d.Level)
	top := TopLevel{Rule: d.Rule, Level: d.Level, Total: d.Total}
	for _, k := range d.Keys {
		key := TopKey{Least: k.Least, Most: k.Most}
		switch {
		case hidden:
			key.Hash = a.hide(d.Rule, k.Key)
		case l == nil:
			key.Parts = map[string]string{"key": k.Key}
		default:
			key.Parts = partsOf(l.Level, k.Key)
		}
		top.Keys = append(top.Keys, key)
	}
	return top
}

// hide returns a hash that replaces a key that must not be shown: the same for the
// same key, and of no use to find the key.
func (a *API) hide(rule, key string) string {
	mac := hmac.New(sha256.New, a.o.Secret)
	mac.Write([]byte(rule))
	mac.Write([]byte{0})
	mac.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
}
