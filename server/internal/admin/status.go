// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/explain"
	"github.com/sluicegate/sluice/server/internal/keys"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/reload"
)

// Status is the answer of GET /policy.
type Status struct {
	reload.Version
	// Failure is the reason why the present file is not active; empty if it is.
	Failure   string                `json:"failure,omitempty"`
	Rules     []overview.RuleStatus `json:"rules"`
	Overrides []overrides.Stored    `json:"overrides"` // beside those of the configuration
	// Unconfirmed reports that other nodes of the store may have other overrides by now:
	// the store cannot be reached, and this node uses the overrides that it has.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

func (a *API) policy(_ http.ResponseWriter, _ *http.Request) (any, error) {
	v, failure := a.o.Version()
	s := Status{Version: v, Overrides: a.o.Overrides.All(a.o.Now())}
	if failure != nil {
		s.Failure = failure.Error()
	}
	if a.o.Audit.Records != nil {
		s.Unconfirmed = !a.o.Audit.Records.Synced()
	}
	p := a.o.Policy()
	for i := range s.Overrides {
		o := &s.Overrides[i]
		if l := keys.Level(p, o.Rule, o.Level); l != nil && keys.Has(l, o.Key) {
			o.Parts = keys.Named(l.Level, o.Key)
		}
		o.ThisNodeOnly = a.o.Overrides.Shared() && o.Version == ""
		o.Unused = a.o.Overrides.Problem(o)
	}
	reports := a.reports()
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		s.Rules = append(s.Rules, overview.StatusOf(r, reports[r.Name]))
	}
	return s, nil
}

// reports returns the counts by rule.
func (a *API) reports() map[string]*outcome.Report {
	reports := make(map[string]*outcome.Report)
	for _, r := range a.o.Tally.Reports() {
		reports[r.Rule] = &r
	}
	return reports
}

func (a *API) top(_ http.ResponseWriter, r *http.Request) (any, error) {
	n := 10
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > outcome.Places {
			return nil, fmt.Errorf("n must be 1 to %d", outcome.Places)
		}
	}
	t := overview.Top{Hidden: !a.authorised(r)}
	t.Levels = a.topOf(r.URL.Query().Get("rule"), n, t.Hidden)
	return t, nil
}

// topOf returns the n keys denied most of each level, of all rules if rule is
// empty.
func (a *API) topOf(rule string, n int, hidden bool) []overview.TopLevel {
	p := a.o.Policy()
	all := []overview.TopLevel{}
	for _, d := range a.o.Tally.Top(rule, n) {
		if keys.Level(p, d.Rule, d.Level) != nil { // otherwise a reload has just removed it
			all = append(all, a.topLevel(p, &d, hidden))
		}
	}
	return all
}

// topLevel returns the keys of a level in the form in which they are shown: hashed, or in clear. This
// node's policy names their parts. If it does not have the level, or another node uses other parts,
// a key is one text.
func (a *API) topLevel(p *policy.Policy, d *outcome.Denied, hidden bool) overview.TopLevel {
	l := keys.Level(p, d.Rule, d.Level)
	top := overview.TopLevel{Rule: d.Rule, Level: d.Level, Total: d.Total}
	for _, k := range d.Keys {
		key := overview.TopKey{Least: k.Least, Most: k.Most}
		switch {
		case hidden:
			key.Hash = a.hide(d.Rule, k.Key)
		case l == nil:
			key.Parts = map[string]string{"key": k.Key}
		default:
			key.Parts = keys.PartsOf(l.Level, k.Key)
		}
		top.Keys = append(top.Keys, key)
	}
	return top
}

// hide returns a hash that replaces a key that must not be shown: the same for the
// same key, and of no use to find the key.
func (a *API) hide(rule, key string) string {
	mac := hmac.New(sha256.New, a.secret)
	mac.Write([]byte(rule))
	mac.Write([]byte{0})
	mac.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
}

const mostExplain = 256 << 10 // bytes of a request to be explained

// explain answers POST /v1/explain.
func (a *API) explain(w http.ResponseWriter, r *http.Request) (any, error) {
	var q explain.Request
	r.Body = http.MaxBytesReader(w, r.Body, mostExplain)
	if err := read(r, &q); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			err = failed(http.StatusRequestEntityTooLarge, err)
		}
		return nil, err
	}
	x := explain.Explainer{Policy: a.o.Policy(), Store: a.o.Explains, Overrides: a.o.Overrides.Active(), Now: a.o.Now, Admits: a.o.Admits, Claims: a.o.Claims}
	e, err := x.Explain(r.Context(), &q)
	if _, bad := errors.AsType[explain.RequestError](err); err != nil && !bad {
		err = failed(http.StatusServiceUnavailable, err)
	}
	return e, err
}
