// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/tally"
)

// Status is the answer of GET /policy.
type Status struct {
	File   string    `json:"file"`
	Hash   string    `json:"hash"` // changes with the file's bytes
	Loaded time.Time `json:"loaded"`
	// Failure is why the file as it is now is not in force; empty if it is.
	Failure   string           `json:"failure,omitempty"`
	Rules     []RuleStatus     `json:"rules"`
	Overrides []StoredOverride `json:"overrides"` // beside those of the file
}

// RuleStatus is what became of requests under a rule.
type RuleStatus struct {
	Name   string   `json:"name"`
	Mode   string   `json:"mode"` // enforce or shadow
	Limits []string `json:"limits"`
	tally.Counts
	Candidates []tally.CandidateReport `json:"candidates,omitempty"`
}

func (a *API) policy(w http.ResponseWriter, _ *http.Request) {
	v, failure := a.o.Version()
	s := Status{File: v.File, Hash: v.Hash, Loaded: v.Loaded, Overrides: a.o.Overrides.All(a.o.Now())}
	if failure != nil {
		s.Failure = failure.Error()
	}
	reports := make(map[string]tally.Report)
	for _, r := range a.o.Tally.Reports() {
		reports[r.Rule] = r
	}
	p := a.o.Policy()
	for i := range p.Len() {
		r := p.Rule(i)
		report := reports[r.Name]
		rs := RuleStatus{Name: r.Name, Mode: "enforce", Counts: report.Counts, Candidates: report.Candidates}
		if r.Shadow {
			rs.Mode = "shadow"
		}
		for j := range r.Levels {
			for _, limit := range r.Levels[j].Limits {
				rs.Limits = append(rs.Limits, limit.String())
			}
			if r.Levels[j].Unlimited {
				rs.Limits = append(rs.Limits, "none")
			}
		}
		s.Rules = append(s.Rules, rs)
	}
	answer(w, http.StatusOK, s)
}

// Top is the answer of GET /v1/top.
type Top struct {
	Levels []TopLevel `json:"levels"`
	Hidden bool       `json:"hidden,omitempty"` // keys are hashes: the caller has no token
}

// TopLevel are the keys of a rule's level that were denied most.
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
	n := 10
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > tally.Places {
			answer(w, http.StatusBadRequest, Error{"n must be 1 to " + strconv.Itoa(tally.Places)})
			return
		}
	}
	p := a.o.Policy()
	levels := make(map[string]*policy.Level)
	for i := range p.Len() {
		rule := p.Rule(i)
		for j := range rule.Levels {
			levels[rule.Name+"/"+rule.Levels[j].Name] = &rule.Levels[j]
		}
	}
	t := Top{Hidden: !a.authorised(r), Levels: []TopLevel{}}
	for _, d := range a.o.Tally.Top(r.URL.Query().Get("rule"), n) {
		level := levels[d.Rule+"/"+d.Level]
		if level == nil {
			continue // it went with a reload just now
		}
		tl := TopLevel{Rule: d.Rule, Level: d.Level, Total: d.Total}
		for _, k := range d.Keys {
			key := TopKey{Least: k.Least, Most: k.Most}
			if t.Hidden {
				key.Hash = a.hide(d.Rule, k.Key)
			} else {
				key.Parts = partsOf(level, k.Key)
			}
			tl.Keys = append(tl.Keys, key)
		}
		t.Levels = append(t.Levels, tl)
	}
	answer(w, http.StatusOK, t)
}

// hide returns what stands for a key that must not be shown: the same for the
// same key, and of no use to find it.
func (a *API) hide(rule, key string) string {
	mac := hmac.New(sha256.New, a.o.Secret)
	mac.Write([]byte(rule))
	mac.Write([]byte{0})
	mac.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
}
