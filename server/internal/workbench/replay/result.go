// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// Result says what rules would have done to the requests of a log. Shares are from 0 to 1.
type Result struct {
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"` // passed on; with a warning and after a delay, too
	Denied   int64 `json:"denied"`  // by a limit
	Refused  int64 `json:"refused"` // without a usable key, or not admitted
	Failed   int64 `json:"failed,omitempty"`
	Delayed  int64 `json:"delayed,omitempty"` // of Allowed
	Warned   int64 `json:"warned,omitempty"`  // of Allowed
	// Keys are counted once for each level of a rule.
	Keys        int       `json:"keys"`
	DeniedKeys  int       `json:"denied_keys"`
	SpanSeconds float64   `json:"span_seconds"` // from the first to the last request
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	// WorstWindow is the most units that a key was admitted in a true window of its limit:
	// the largest of all limits.
	WorstWindow int64 `json:"worst_window"`
	// PeakArrived and PeakPassed are the most requests in a second, before the limits and
	// behind them.
	PeakArrived Peak `json:"peak_arrived"`
	PeakPassed  Peak `json:"peak_passed"`

	Rules     []Rule      `json:"rules"`
	Limits    []Limit     `json:"limits"`
	TopDenied []DeniedKey `json:"top_denied"` // those with the most denials, 100 at most
	Series    Series      `json:"series"`
	Memory    Memory      `json:"memory"`
	Against   *Comparison `json:"against,omitempty"`
	Recorded  *Recorded   `json:"recorded,omitempty"` // of a decision log
	// Lacks are parts of requests that rules need and the log does not have.
	Lacks     []string        `json:"lacks,omitempty"`
	Log       arrivals.Report `json:"log"`
	Explained *Explained      `json:"explained,omitempty"`

	first int64
}

// Rule counts the requests of one level of a rule.
type Rule struct {
	Rule       string `json:"rule"` // with its level
	Mode       string `json:"mode"` // enforce, shadow, or a candidate: what it would have done
	Requests   int64  `json:"requests"`
	Denied     int64  `json:"denied"`
	Keys       int    `json:"keys"`
	DeniedKeys int    `json:"denied_keys"`
}

// Limit says what a limit of an active rule did.
type Limit struct {
	Rule        string    `json:"rule"`
	Limit       string    `json:"limit"`
	Window      float64   `json:"window_seconds"`
	Denied      int64     `json:"denied"`
	Bound       int64     `json:"bound"` // of the units in a true window, whatever the traffic
	WorstWindow int64     `json:"worst_window"`
	WorstKey    string    `json:"worst_key,omitempty"`
	WorstAt     time.Time `json:"worst_at,omitzero"` // its end
	// LowerBound says that WorstWindow may be larger: a key had more than 65,536 admissions
	// in a window.
	LowerBound bool `json:"worst_window_is_lower_bound,omitempty"`
	// Undelivered are denials although the true window of the key had room.
	Undelivered int64 `json:"undelivered"`
}

// DeniedKey is a key with denials.
type DeniedKey struct {
	Rule     string    `json:"rule"`
	Mode     string    `json:"mode"`
	Key      string    `json:"key"`
	Requests int64     `json:"requests"`
	Denied   int64     `json:"denied"`
	Share    float64   `json:"share"`
	First    time.Time `json:"first"`
}

// Peak is the second with the most requests.
type Peak struct {
	Requests int64     `json:"requests"`
	At       time.Time `json:"at"`
}

// Series counts requests by spans of one length.
type Series struct {
	Seconds int64 `json:"seconds"`
	Bins    []Bin `json:"bins"` // those with requests
}

// Memory is that of the states in the store.
type Memory struct {
	Bytes   int64  `json:"bytes"`
	States  int    `json:"states"`
	Evicted uint64 `json:"evicted"` // states that were dropped for lack of room
}

// Comparison says whose verdict changes from other rules to these.
type Comparison struct {
	Allowed      int64        `json:"allowed"` // under the other rules
	Denied       int64        `json:"denied"`  // under the other rules; refused, too
	NewlyDenied  int64        `json:"newly_denied"`
	NewlyAllowed int64        `json:"newly_allowed"`
	Keys         int          `json:"keys"` // whose verdict changes
	TopKeys      []Difference `json:"top_keys"`
}

// Difference counts the requests of a key whose verdict changes.
type Difference struct {
	Key          string    `json:"key"`
	NewlyDenied  int64     `json:"newly_denied"`
	NewlyAllowed int64     `json:"newly_allowed"`
	First        time.Time `json:"first"`
}

// Recorded compares the decisions of a decision log with those of the replay.
type Recorded struct {
	Requests  int64 `json:"requests"`
	Different int64 `json:"different"`
}

// Explained is a decision with its arithmetic.
type Explained struct {
	At          time.Time             `json:"at"`
	File        int                   `json:"file"`
	Line        int64                 `json:"line"`
	Explanation *evaluate.Explanation `json:"explanation"`
}

// mostKeys is how many keys a Result lists.
const mostKeys = 100

func instant(at int64) time.Time { return time.UnixMicro(at).UTC() }

// count counts a verdict.
func (f *Result) count(v evaluate.VerdictKind) {
	switch v {
	case evaluate.Denied:
		f.Denied++
	case evaluate.Refused:
		f.Refused++
	case evaluate.Allowed:
		f.Allowed++
	case evaluate.Warned:
		f.Allowed++
		f.Warned++
	case evaluate.Delayed:
		f.Allowed++
		f.Delayed++
	case evaluate.Abandoned, evaluate.FailedOpen, evaluate.FailedClosed:
		f.Failed++
	}
}

// finish sets the rest of the result.
func (r *run) finish(log *arrivals.Log) {
	f := r.result
	f.From, f.To, f.SpanSeconds = instant(f.first), instant(r.last), float64(r.last-f.first)/1e6
	f.Log = log.Report
	r.judge.settle(r.ctx, r.last)
	f.PeakArrived, f.PeakPassed = r.arrived.peak(r.last), r.passed.peak(r.last)
	f.Series = Series{r.series.length / second, r.series.bins}
	f.Rules, f.Limits = []Rule{}, []Limit{}
	for _, s := range r.scopes.list {
		of := Rule{Rule: s.name(), Mode: s.mode, Requests: s.requests, Denied: s.denied, Keys: len(s.keys), DeniedKeys: s.deniedKeys()}
		f.Rules = append(f.Rules, of)
		if s.mode != "enforce" {
			continue
		}
		f.Keys += of.Keys
		f.DeniedKeys += of.DeniedKeys
		for _, l := range s.limits {
			f.WorstWindow = max(f.WorstWindow, l.worst)
			f.Limits = append(f.Limits, l.report(s))
		}
	}
	f.TopDenied = r.scopes.sortedKeys()
	f.TopDenied = f.TopDenied[:min(len(f.TopDenied), mostKeys)]
	stats := r.judge.store.Stats()
	f.Memory = Memory{stats.Bytes, stats.States, stats.Evicted}
	f.Lacks = r.judge.lacks.list()
	if c := f.Against; c != nil {
		c.Keys, c.TopKeys = len(r.differences), r.changed()
	}
}

func (l *limit) report(s *scope) Limit {
	return Limit{
		Rule: s.name(), Limit: l.of.Limit.String(), Window: l.of.Window.Seconds(), Denied: l.denied, Bound: algo.Bound(l.of.Limit, l.of.Window),
		WorstWindow: l.worst, WorstKey: l.worstKey, WorstAt: instant(l.worstAt), LowerBound: l.joined, Undelivered: l.undelivered,
	}
}

// peak returns the second with the most requests, once there are no more until an instant.
func (p *peak) peak(last int64) Peak {
	p.advance(last + second)
	for s, n := range p.later {
		p.end(s, n)
	}
	p.end(p.second, p.n)
	return Peak{p.most, instant(p.at * second)}
}

// changed returns the keys with the most changed verdicts.
func (r *run) changed() (all []Difference) {
	for _, d := range r.differences {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.NewlyDenied+b.NewlyAllowed, a.NewlyDenied+a.NewlyAllowed), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), mostKeys)]
}
