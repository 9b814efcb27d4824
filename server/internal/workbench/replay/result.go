// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// Result says what rules would have done to the requests of a log.
type Result struct {
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"` // passed on; with a warning and after a delay, too
	Denied   int64 `json:"denied"`  // by a limit
	Refused  int64 `json:"refused"` // without a usable key, or not admitted
	Delayed  int64 `json:"delayed"` // of Allowed
	Warned   int64 `json:"warned"`  // of Allowed
	// Keys are counted once for each level of a rule.
	Keys        int       `json:"keys"`
	DeniedKeys  int       `json:"denied_keys"`
	SpanSeconds float64   `json:"span_seconds"` // from the first to the last request
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	// WorstWindow is the most units that a key was admitted in a true window of its limit:
	// the largest of all limits.
	WorstWindow int64 `json:"worst_window"`
	PeakArrived Peak  `json:"peak_arrived"` // before the limits
	PeakPassed  Peak  `json:"peak_passed"`  // behind them

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
	LowerBound  bool  `json:"worst_window_is_lower_bound,omitempty"`
	Undelivered int64 `json:"undelivered"` // denials although the true window had room
}

// DeniedKey is a key with denials.
type DeniedKey struct {
	Rule     string    `json:"rule"`
	Mode     string    `json:"mode"`
	Key      string    `json:"key"`
	Requests int64     `json:"requests"`
	Denied   int64     `json:"denied"`
	Share    float64   `json:"share"` // of Requests that were denied, from 0 to 1
	First    time.Time `json:"first"`
}

// Peak is the second with the most requests.
type Peak struct {
	Requests int64     `json:"requests"`
	At       time.Time `json:"at"`
}

// Series counts requests by spans of one length. Bins are those with requests.
type Series struct {
	Seconds int64 `json:"seconds"`
	Bins    []Bin `json:"bins"`
}

// Bin counts the requests of a span. Denied ones include those that were refused.
type Bin struct {
	From    int64 `json:"from"` // Unix seconds
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
}

// Memory is the most that the states in the store took. Evicted ones were dropped for lack of
// room.
type Memory struct {
	Bytes   int64  `json:"bytes"`
	States  int    `json:"states"`
	Evicted uint64 `json:"evicted"`
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

// Recorded compares the verdicts in a decision log with those of the replay.
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

// count counts a verdict. The store in memory does not fail.
func (f *Result) count(v evaluate.VerdictKind) {
	switch {
	case v.Passes():
		f.Allowed++
	case v == evaluate.Denied:
		f.Denied++
	default:
		f.Refused++
	}
	switch v {
	case evaluate.Warned:
		f.Warned++
	case evaluate.Delayed:
		f.Delayed++
	default:
	}
}

// finish sets the rest of the result.
func (r *run) finish() {
	r.From, r.To, r.SpanSeconds = instant(r.first), instant(r.latest), float64(r.latest-r.first)/1e6
	r.PeakArrived, r.PeakPassed = r.arrived.result(), r.passed.result()
	r.Result.Rules, r.Limits, r.TopDenied = []Rule{}, []Limit{}, []DeniedKey{}
	for _, s := range r.scopes {
		s.Rule.Keys = len(s.keys)
		r.Result.Rules = append(r.Result.Rules, s.Rule)
		for _, k := range s.keys {
			if k.Denied > 0 {
				k.Share = float64(k.Denied) / float64(k.Requests)
				r.TopDenied = append(r.TopDenied, k.DeniedKey)
			}
		}
		if s.Mode != "enforce" {
			continue
		}
		r.Keys, r.DeniedKeys = r.Keys+s.Keys, r.DeniedKeys+s.DeniedKeys
		for _, l := range s.limits {
			l.Bound = algo.Bound(l.of.Limit, l.of.Window)
			r.WorstWindow = max(r.WorstWindow, l.WorstWindow)
			r.Limits = append(r.Limits, l.Limit)
		}
	}
	slices.SortFunc(r.TopDenied, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Mode, b.Mode))
	})
	r.TopDenied = r.TopDenied[:min(len(r.TopDenied), mostKeys)]
	r.measure()
	for of := range r.judge.lacks {
		if of.kind == "client" && !slices.ContainsFunc(r.Policy.Rules(), func(of policy.Rule) bool { return ofClients(&of) }) {
			continue // every match reads the client
		}
		r.Lacks = append(r.Lacks, strings.TrimSpace(of.kind+" "+of.name))
	}
	slices.Sort(r.Lacks)
	if c := r.Result.Against; c != nil {
		for _, d := range r.changed {
			c.TopKeys = append(c.TopKeys, *d)
		}
		slices.SortFunc(c.TopKeys, func(a, b Difference) int {
			return cmp.Or(cmp.Compare(b.NewlyDenied+b.NewlyAllowed, a.NewlyDenied+a.NewlyAllowed), cmp.Compare(a.Key, b.Key))
		})
		c.Keys, c.TopKeys = len(c.TopKeys), c.TopKeys[:min(len(c.TopKeys), mostKeys)]
	}
}

// ofClients reports whether a rule looks at the client's address.
func ofClients(r *policy.Rule) bool {
	return len(r.Match.Networks)+len(r.ExemptNetworks) > 0 || slices.ContainsFunc(r.Levels, func(l policy.Level) bool { return slices.ContainsFunc(l.By, ofClient) })
}

func ofClient(p policy.Part) bool {
	if of := p.Parts(); len(of) != 1 || of[0] != p {
		return slices.ContainsFunc(of, ofClient)
	}
	return p.Source == source.IP || p.Name == "ip" // by its name in a log
}

// measure notes the memory of the states.
func (r *run) measure() {
	s := r.judge.store.Stats()
	r.Memory = Memory{max(r.Memory.Bytes, s.Bytes), max(r.Memory.States, s.States), s.Evicted}
}

// result returns the peak, once there are no more requests.
func (p *peak) result() Peak {
	p.advance(1 << 62)
	return Peak{p.most, instant(p.at * second)}
}
