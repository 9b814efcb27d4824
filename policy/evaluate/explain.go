// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Explanation describes the decision that a request would get, with the reasons.
type Explanation struct {
	Verdict string `json:"verdict"`       // as [VerdictKind.String]
	Why     string `json:"why,omitempty"` // the reason why it is refused or not decided
	// Rule is the rule of the limit that binds, or of the limit of requests in flight that
	// denies; empty if there is none.
	Rule     string   `json:"rule,omitempty"`
	Violated []string `json:"violated,omitempty"` // as [Event.Violated]
	// Decision is as [Verdict.Decision]: that of the limit that binds.
	Decision sluice.Decision `json:"decision"`
	// Rules are the rules that match, and at most 256 rules that do not, in the order of the
	// policy.
	Rules []RuleExplanation `json:"rules"`
	// MoreUnmatched is the number of rules that do not match and are not in Rules.
	MoreUnmatched int `json:"more_unmatched,omitempty"`
}

// RuleExplanation describes the effect of one rule on a request.
type RuleExplanation struct {
	Name    string `json:"name"`
	Mode    string `json:"mode"` // enforce, shadow or shape
	Matches bool   `json:"matches"`
	// Differences are the parts of the rule's Match that the request does not have, such as
	// "method: POST is not GET". They hold no value of a header or a query.
	Differences []string `json:"differences,omitempty"`
	// Exempt says that the rule matches, and exempts the client's network.
	Exempt bool     `json:"exempt,omitempty"`
	Notes  []string `json:"notes,omitempty"` // its charges and their times, if the decision does not show them
	// Levels are the levels of a rule that matches and does not exempt the client.
	Levels []LevelExplanation `json:"levels,omitempty"`
}

// mostDifferences is how many rules that do not match an [Explanation] names.
const mostDifferences = 256

// LevelExplanation is the key of a level that a request is charged to, with the results of its
// limits.
type LevelExplanation struct {
	Name  string            `json:"name,omitempty"`
	Parts map[string]string `json:"parts"`          // of the key
	Note  string            `json:"note,omitempty"` // the reason why no limit applies
	// Override is the reason and the author of the override that gives these limits, empty if
	// there is none.
	Override string             `json:"override,omitempty"`
	Tier     string             `json:"tier,omitempty"` // as the request names it
	Cost     int64              `json:"cost,omitempty"` // units
	Limits   []LimitExplanation `json:"limits,omitempty"`
	// InFlight is nil if there is no such limit, or the store was not asked.
	InFlight *InFlight `json:"in_flight,omitempty"`
	// Candidates are evaluated beside the limits, and change nothing.
	Candidates []CandidateExplanation `json:"candidates,omitempty"`
}

// LimitExplanation is the result of a limit for a request.
type LimitExplanation struct {
	sluice.Reason
	Soft  bool `json:"soft,omitempty"`  // a request that goes over it draws on the grace limit
	Grace bool `json:"grace,omitempty"` // it is the grace limit of a soft limit that denied
}

// CandidateExplanation is the result of a candidate for a request.
type CandidateExplanation struct {
	Name    string          `json:"name"`
	Allowed bool            `json:"allowed"`
	Skipped string          `json:"skipped,omitempty"` // the reason why the request is not evaluated
	Limits  []sluice.Reason `json:"limits,omitempty"`
}

// errExplainStore is the error of Explain for a store that cannot explain.
var errExplainStore = errors.New("evaluate: explain: Store, and Slots if there is one, must be a sluice.ExplainStore")

// Explain describes the decision that [Evaluator.Decide] would make, with the reasons. It
// charges nothing, acquires no slot and changes nothing. Store and Slots must each be a
// [sluice.ExplainStore]. It calls the store once for each charge and each slot. It
// ignores the places of a [Queue] and the instants left in it. It may call functions of
// costs and key parts several times.
func (e *Evaluator) Explain(ctx context.Context, a policy.Attributes) (*Explanation, error) {
	store, ok := e.opts.Store.(sluice.ExplainStore)
	if !ok {
		return nil, errExplainStore
	}
	slots := store
	if e.opts.Slots != nil {
		if slots, ok = e.opts.Slots.(sluice.ExplainStore); !ok {
			return nil, errExplainStore
		}
	}
	dry := &dryStore{store: store, slots: slots, reasons: make(map[sluice.Charge][]sluice.Reason)}
	evaluator := &Evaluator{
		rules: e.rules, slots: dry,
		opts: Options{Policy: e.opts.Policy, Store: dry, MaxWait: e.opts.MaxWait, Overrides: e.opts.Overrides, Now: e.opts.Now, CallerWaits: true},
	}
	c := new(Call)
	v := &c.evaluated
	v.evaluator = evaluator
	evaluator.evaluate(ctx, a, v, false)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("evaluate: explain: %w", err)
	}
	c.conclude(context.WithoutCancel(ctx))
	c.pass()
	x := &Explanation{Verdict: c.Verdict.String(), Decision: v.Decision, Violated: c.Violated, Rules: []RuleExplanation{}}
	if c.Rule != nil {
		x.Rule = c.Rule.Name
	}
	if c.Err != nil {
		x.Why = c.Err.Error()
	}
	unmatched := 0
	for i := range e.rules {
		r := v.explainRule(ctx, i, a, dry)
		if !r.Matches {
			if unmatched++; unmatched > mostDifferences {
				x.MoreUnmatched++
				continue
			}
			r.Differences, _ = v.matches.Differences(i)
		}
		x.Rules = append(x.Rules, r)
	}
	return x, nil
}

// explainRule describes the effect of the n-th rule on the request that v has decided.
func (v *Verdict) explainRule(ctx context.Context, n int, a policy.Attributes, dry *dryStore) RuleExplanation {
	r, at := &v.evaluator.rules[n], 0
	x := RuleExplanation{Name: r.Name, Mode: mode(r.Rule)}
	for at < v.matches.Len() && v.matches.At(at) != n {
		at++
	}
	if x.Matches = at < v.matches.Len(); !x.Matches {
		return x
	}
	if _, x.Exempt = v.matches.Differences(n); x.Exempt {
		return x
	}
	x.Notes = notes(r.Rule)
	for i := range r.levels {
		x.Levels = append(x.Levels, v.explainLevel(ctx, at, r, &r.levels[i], a, dry))
	}
	return x
}

func mode(r *policy.Rule) string {
	switch {
	case r.Shadow:
		return "shadow"
	case r.Shape:
		return "shape"
	}
	return "enforce"
}

// notes describes the parts of a rule that the decision alone does not show.
func notes(r *policy.Rule) (list []string) {
	if w := r.When; w != nil {
		var codes []string
		for _, s := range w.Status {
			codes = append(codes, s.String())
		}
		what := "asks now whether there is room, and charges once the response is known: "
		if w.ChargeFirst {
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
	if r.HoldFor > 0 && !r.Shadow {
		list = append(list, fmt.Sprintf("the estimate is held for %v at most, and then given back", r.HoldFor))
	}
	if r.MaxWait > 0 && !r.Shape {
		list = append(list, fmt.Sprintf("requests may wait for up to %v until they fit", r.MaxWait))
	}
	return list
}

// explainLevel describes a level of the i-th rule that matched.
func (v *Verdict) explainLevel(ctx context.Context, i int, r *rule, l *level, a policy.Attributes, dry *dryStore) LevelExplanation {
	parts, lacks := v.matches.Parts(i, l.CompiledLevel)
	x := LevelExplanation{Name: l.Name, Parts: parts}
	key, ok, err := v.matches.Key(i, l.CompiledLevel)
	switch {
	case err != nil:
		x.Note = err.Error()
		return x
	case !ok && lacks != "" && l.Missing == policy.Skip:
		x.Note = "the request has no " + lacks
		return x
	case !ok:
		x.Note = "the key is exempt"
		return x
	}
	x.InFlight = dry.inFlight(ctx, r, l, key)
	if !l.Limited {
		return x
	}
	if _, o := v.override(l, key); o != nil {
		x.Override = o.Reason + " (" + o.Author + ")"
	} else {
		x.Tier, _ = v.matches.Tier(i, l.CompiledLevel)
	}
	s, err := v.set(i, l, key)
	if err == nil && s != nil && !r.Shape {
		x.Cost, err = before(r.Rule, a)
	}
	switch {
	case err != nil:
	case s == nil:
		x.Note = "the key has no limit"
	case r.Shape:
		x.Cost = 1
		x.Limits, err = dry.shaped(ctx, sluice.Charge{Plan: s.Take, Key: key, Cost: 1})
	default:
		if v.explainLimits(&x, l, s, key, dry); len(x.Limits) == 0 {
			x.Note = "the limits are not applied: the request is refused or denied before"
		}
	}
	if err != nil {
		x.Note = err.Error()
	}
	return x
}

// explainLimits adds the reasons of a charge's limits and candidates.
func (v *Verdict) explainLimits(x *LevelExplanation, l *level, s *set, key string, dry *dryStore) {
	reasons := dry.reasons[sluice.Charge{Plan: s.Take, Key: key, Cost: x.Cost}]
	over := []sluice.Reason(nil)
	if s.Over != nil {
		over = dry.reasons[sluice.Charge{Plan: s.Over, Key: key, Cost: x.Cost}]
	}
	for i, reason := range reasons {
		if soft := i == s.Soft; soft || over == nil {
			x.Limits = append(x.Limits, LimitExplanation{Reason: reason, Soft: soft})
		} else { // the reason from the call with the grace limit counts
			x.Limits = append(x.Limits, LimitExplanation{Reason: over[i]})
		}
	}
	if over != nil {
		x.Limits = append(x.Limits, LimitExplanation{Reason: over[len(over)-1], Grace: true})
	}
	for i := range l.Candidates {
		c := &l.Candidates[i]
		on := CandidateExplanation{Name: c.Name, Allowed: true}
		if plan := l.ByCandidate[i][s.Set]; plan != nil {
			if on.Limits = dry.reasons[sluice.Charge{Plan: plan, Key: key, Cost: x.Cost}]; on.Limits == nil {
				continue
			}
		} else if on.Allowed, on.Skipped = false, "it has no limits for the tier "+x.Tier; x.Override != "" {
			on.Skipped = "the key has an override"
		} else if s == l.base {
			on.Skipped = "it has limits for tiers only"
		}
		for _, r := range on.Limits {
			on.Allowed = on.Allowed && r.Allowed
		}
		x.Candidates = append(x.Candidates, on)
	}
}
