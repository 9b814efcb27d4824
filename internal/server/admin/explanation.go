// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Explanation is the answer of POST /v1/explain.
type Explanation struct {
	Verdict  string   `json:"verdict"`            // as in metrics
	Why      string   `json:"why,omitempty"`      // why it is refused, or not decided
	Rule     string   `json:"rule,omitempty"`     // whose limit binds, or denies
	Violated []string `json:"violated,omitempty"` // limits that deny, the binding one first; where it passes, those in shadow mode that would
	// Degraded is whether the store is unavailable, and a failure policy decides.
	Degraded bool `json:"degraded,omitempty"`
	// At is when it is decided, on the store's clock; zero where it is not asked.
	At         time.Time       `json:"at,omitzero"`
	Delay      time.Duration   `json:"delay_ns,omitempty"`       // for which it is delayed
	RetryAfter time.Duration   `json:"retry_after_ns,omitempty"` // when it would pass
	TooLarge   bool            `json:"too_large,omitempty"`      // it never passes
	Rules      []ExplainedRule `json:"rules"`                    // in their order
	// MoreUnmatched is how many rules do not match beside those of Rules.
	MoreUnmatched int `json:"more_unmatched,omitempty"`
}

// ExplainedRule is what one rule has to do with a request.
type ExplainedRule struct {
	Name    string `json:"name"`
	Mode    string `json:"mode"` // enforce, shadow or shape
	Matches bool   `json:"matches"`
	// Differences are why it does not match.
	Differences []string         `json:"differences,omitempty"`
	Exempt      bool             `json:"exempt,omitempty"` // the client's network is
	Notes       []string         `json:"notes,omitempty"`  // on what is charged, and when
	Levels      []ExplainedLevel `json:"levels,omitempty"`
}

// ExplainedLevel is the key that a request is charged to.
type ExplainedLevel struct {
	Name     string               `json:"name,omitempty"`
	Parts    map[string]string    `json:"parts"`          // of the key
	Note     string               `json:"note,omitempty"` // why no limit is asked
	Override string               `json:"override,omitempty"`
	Tier     string               `json:"tier,omitempty"`
	Cost     int64                `json:"cost,omitempty"`
	Limits   []ExplainedLimit     `json:"limits,omitempty"`
	InFlight *InFlightState       `json:"in_flight,omitempty"`
	Trials   []ExplainedCandidate `json:"candidates,omitempty"`
}

// ExplainedLimit is what a limit says, with its arithmetic.
type ExplainedLimit struct {
	Limit      string        `json:"limit"`
	Kind       string        `json:"kind,omitempty"` // soft or grace
	Allowed    bool          `json:"allowed"`
	Room       int64         `json:"room"`      // the largest cost that fits
	Remaining  int64         `json:"remaining"` // after the request, if it passes; 0 of a block
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	TooLarge   bool          `json:"too_large,omitempty"` // it never fits
	ResetAfter time.Duration `json:"reset_after_ns,omitempty"`
	Lines      []string      `json:"lines"`
	Changes    []string      `json:"changes,omitempty"` // each would make it allow
}

// ExplainedCandidate is what a candidate says.
type ExplainedCandidate struct {
	Name    string           `json:"name"`
	Allowed bool             `json:"allowed"`
	Skipped string           `json:"skipped,omitempty"` // why it is not evaluated
	Limits  []ExplainedLimit `json:"limits"`
}

func explanationOf(e *policy.Explanation) *Explanation {
	x := &Explanation{
		Verdict: e.Verdict.String(), Violated: e.Violated, Degraded: e.Decision.Degraded, Delay: e.Decision.Delay,
		RetryAfter: e.Decision.RetryAfter, TooLarge: e.Decision.TooLarge, Rules: []ExplainedRule{},
	}
	if e.Decision.At > 0 {
		x.At = e.Decision.At.Time()
	}
	if e.Err != nil {
		x.Why = e.Err.Error()
	}
	if e.Rule != nil {
		x.Rule = e.Rule.Name
	}
	for i := range e.Rules {
		r := &e.Rules[i]
		if !r.Matches && len(r.Differences) == 0 {
			x.MoreUnmatched++
			continue
		}
		x.Rules = append(x.Rules, explainedRule(r))
	}
	return x
}

func explainedRule(r *policy.RuleExplanation) ExplainedRule {
	x := ExplainedRule{Name: r.Rule.Name, Mode: "enforce", Matches: r.Matches, Exempt: r.Exempt}
	switch {
	case r.Rule.Shadow:
		x.Mode = "shadow"
	case r.Rule.Shape:
		x.Mode = "shape"
	}
	for _, d := range r.Differences {
		x.Differences = append(x.Differences, d.Part+": "+d.Why)
	}
	if x.Matches && !x.Exempt {
		x.Notes = notes(r.Rule)
	}
	for i := range r.Levels {
		x.Levels = append(x.Levels, explainedLevel(&r.Levels[i]))
	}
	return x
}

// notes says what of a rule the decision alone does not show.
func notes(r *policy.Rule) (list []string) {
	if w := r.When; w != nil {
		var codes []string
		for _, s := range w.Status {
			codes = append(codes, s.String())
		}
		what := "asks now whether there is room, and charges once the response is known: "
		if w.Hold {
			what = "charges now, and gives back unless the response is "
		}
		list = append(list, what+strings.Join(codes, ", "))
	}
	switch {
	case r.Shape:
		list = append(list, "slows bytes down, and denies nothing: shown for one byte")
	case r.Cost.Afterwards():
		list = append(list, "the cost is an estimate until the response is known: "+r.Cost.String())
	}
	if r.MaxWait > 0 && !r.Shape {
		list = append(list, fmt.Sprintf("requests may wait for up to %v until they fit", r.MaxWait))
	}
	return list
}

func explainedLevel(l *policy.LevelExplanation) ExplainedLevel {
	x := ExplainedLevel{Name: l.Level.Name, Parts: make(map[string]string), Note: l.Skipped, Tier: l.Tier, Cost: l.Cost}
	for _, p := range l.Parts {
		part, value := p.Part, p.Value
		if value != "" {
			part, value = p.Part.Of(value)
		}
		x.Parts[part.String()] = value
	}
	switch {
	case l.Err != nil:
		x.Note = l.Err.Error()
	case l.Unlimited:
		x.Note = "the key has no limit"
	case l.Charged && len(l.Limits) == 0:
		x.Note = "the limits are not asked: the request is refused or denied before"
	}
	if o := l.Override; o != nil {
		x.Override = o.Reason + " (" + o.Author + ")"
	}
	for _, limit := range l.Limits {
		e := explainedLimit(&limit.Reason)
		switch {
		case limit.Grace:
			e.Kind = "grace"
		case limit.Soft:
			e.Kind = "soft"
		}
		x.Limits = append(x.Limits, e)
	}
	if f := l.InFlight; f != nil {
		x.InFlight = &InFlightState{Cap: f.Limit.Cap, Held: f.Decision.Held, Free: f.Decision.Free}
	}
	for _, c := range l.Candidates {
		e := ExplainedCandidate{Name: c.Candidate.Name, Allowed: c.Allowed, Skipped: c.Skipped, Limits: []ExplainedLimit{}}
		for i := range c.Limits {
			e.Limits = append(e.Limits, explainedLimit(&c.Limits[i]))
		}
		x.Trials = append(x.Trials, e)
	}
	return x
}

func explainedLimit(r *sluice.Reason) ExplainedLimit {
	remaining := r.Remaining
	if r.Limit.Algorithm == sluice.Block { // it has no units
		remaining = 0
	}
	return ExplainedLimit{
		Limit: r.Limit.String(), Allowed: r.Allowed, Room: r.Room, Remaining: remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter,
		TooLarge: r.TooLarge, Lines: slices.Clone(r.Lines), Changes: r.Changes,
	}
}
