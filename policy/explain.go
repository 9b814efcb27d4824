// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
)

// Explanation is how a request would be decided, and why.
type Explanation struct {
	Verdict VerdictKind
	// Decision is as [Verdict.Decision]: that of the limit that binds.
	Decision sluice.Decision
	Rule     *Rule    // of that limit, or of the requests in flight that deny; nil if there is none
	Violated []string // as [Event.Violated]
	// Err is why the request is refused or not decided, nil if it is neither.
	Err   error
	Rules []RuleExplanation // all, in the order of the policy
}

// RuleExplanation is what one rule has to do with a request.
type RuleExplanation struct {
	Rule    *Rule
	Matches bool
	// Differences are why the rule does not match, none if it does. They are named for the
	// first 256 rules that do not match.
	Differences []Difference
	// Exempt says that the rule matches, and exempts the client's network.
	Exempt bool
	// Levels are those of a rule that matches and does not exempt.
	Levels []LevelExplanation
}

// mostDifferences is for how many rules an [Explanation] says at most why they do not
// match.
const mostDifferences = 256

// Difference is a part of a rule's Match that a request does not have.
type Difference struct {
	Part string // "method", "host", "path", "header X-Plan", "query q", "network"
	Why  string // never holds a value of a header or a query
}

// LevelExplanation is the key of a level that a request is charged to, and what its
// limits say.
type LevelExplanation struct {
	Level *Level
	Parts []PartValue
	Key   string // as it is charged; valid if Charged or Unlimited, and of requests in flight
	// Charged says that the request is charged under the limits of the level. Skipped
	// is why it is not, "" also where the key has no limits: then it is Unlimited.
	Charged   bool
	Unlimited bool
	Skipped   string
	Err       error              // why the request cannot be charged
	Override  *Override          // whose limits these are, nil if it is none
	Tier      string             // as the request names it; "" if the level has none
	Cost      int64              // units
	Limits    []LimitExplanation // none where the store was not asked
	InFlight  *InFlight          // nil if there is no such limit, or it was not asked
	// Candidates are evaluated beside the limits, and change nothing.
	Candidates []CandidateExplanation
}

// PartValue is a part of a key, with the request's value.
type PartValue struct {
	Part  Part
	Value string
}

// LimitExplanation is what a limit says of a request.
type LimitExplanation struct {
	sluice.Reason
	Soft  bool // a request that goes over it draws on the grace limit
	Grace bool // it is the grace limit of one that denied
}

// CandidateExplanation is what a candidate says of a request.
type CandidateExplanation struct {
	Candidate *Candidate
	Allowed   bool
	Limits    []sluice.Reason
	Skipped   string // why the request is not evaluated, "" if it is
}

// errExplainStore is why an Evaluator explains nothing.
var errExplainStore = errors.New("policy: explain: Store, and Slots if there is one, must be a sluice.ExplainStore")

// Explain says what [Evaluator.Decide] would decide, and why. It charges nothing,
// acquires no slot and changes nothing. Store and Slots must be a
// [sluice.ExplainStore]. It asks the store once for each charge, and for slots. The
// places of a [Queue], and what others have left in it, have no part in it. A cost or a
// part of a key that is a function's is asked for several times.
func (e *Evaluator) Explain(ctx context.Context, a Attributes) (*Explanation, error) {
	store, ok := e.Store.(sluice.ExplainStore)
	if !ok {
		return nil, errExplainStore
	}
	slots := store
	if e.Slots != nil {
		if slots, ok = e.Slots.(sluice.ExplainStore); !ok {
			return nil, errExplainStore
		}
	}
	dry := &dryStore{store: store, slots: slots, reasons: make(map[sluice.Charge][]sluice.Reason)}
	evaluator := Evaluator{Policy: e.Policy, Store: dry, Slots: dry, MaxWait: e.MaxWait, Now: e.Now}
	c := &Call{front: &Front{}}
	v := &c.evaluated
	evaluator.Decide(ctx, a, v)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("policy: explain: %w", err)
	}
	c.conclude(context.WithoutCancel(ctx))
	c.pass()
	x := &Explanation{Verdict: c.Verdict, Decision: v.Decision, Rule: c.Rule, Violated: c.Violated, Err: c.Err}
	unmatched := 0
	for i := range e.Policy.rules {
		r := v.explainRule(ctx, &e.Policy.rules[i], a, dry)
		if !r.Matches {
			if unmatched++; unmatched <= mostDifferences {
				r.Differences = v.matches.differences(&e.Policy.rules[i], a)
			}
		}
		x.Rules = append(x.Rules, r)
	}
	return x, nil
}

// explainRule says what a rule has to do with the request that v has decided.
func (v *Verdict) explainRule(ctx context.Context, r *rule, a Attributes, dry *dryStore) RuleExplanation {
	x := RuleExplanation{Rule: &r.Rule}
	at := slices.IndexFunc(v.matches.hits, func(h hit) bool { return &v.matches.of.rules[h.rule] == r })
	if x.Matches = at >= 0; !x.Matches {
		return x
	}
	if within(r.ExemptNetworks, v.matches.found.client) {
		x.Exempt = true
		return x
	}
	for i := range r.levels {
		x.Levels = append(x.Levels, v.explainLevel(ctx, r, &r.levels[i], v.matches.hits[at], a, dry))
	}
	return x
}

func (v *Verdict) explainLevel(ctx context.Context, r *rule, l *level, by hit, a Attributes, dry *dryStore) LevelExplanation {
	x := LevelExplanation{Level: l.Level}
	for i := range l.parts {
		value, _ := r.value(&l.parts[i], a, &v.matches, by) // whose error is the key's
		x.Parts = append(x.Parts, PartValue{l.parts[i].Part, value})
	}
	key, ok, err := r.key(l, v, by)
	if err != nil {
		x.Err = err
		return x
	}
	if !ok {
		x.Skipped = "the key is exempt"
		if i := slices.IndexFunc(x.Parts, func(p PartValue) bool { return p.Value == "" }); i >= 0 && l.Missing == Skip {
			x.Skipped = "the request has no " + x.Parts[i].Part.String()
		}
		return x
	}
	x.Key = key
	x.InFlight = dry.inFlight(ctx, r, l, key)
	if !l.limited {
		return x
	}
	if o := l.overridden(key, v.now()); o != nil {
		x.Override = o
	} else if l.Tiers != nil {
		x.Tier, _ = r.value(&l.tierPart, a, &v.matches, by)
	}
	s, err := r.set(l, key, v, by)
	if err == nil && s != nil && !r.Shape {
		x.Cost, err = r.before(a)
	}
	switch {
	case err != nil:
		x.Err = err
	case s == nil:
		x.Unlimited = true
	case r.Shape:
		x.Charged, x.Cost = true, 1
		x.Limits, x.Err = dry.shaped(ctx, sluice.Charge{Plan: s.take, Key: key, Cost: 1})
	default:
		x.Charged = true
		v.explainLimits(&x, l, s, key, dry)
	}
	return x
}

// explainLimits says what the limits of a charge, and candidates, were found to say.
func (v *Verdict) explainLimits(x *LevelExplanation, l *level, s *set, key string, dry *dryStore) {
	reasons := dry.reasons[sluice.Charge{Plan: s.take, Key: key, Cost: x.Cost}]
	over := []sluice.Reason(nil)
	if s.over != nil {
		over = dry.reasons[sluice.Charge{Plan: s.over, Key: key, Cost: x.Cost}]
	}
	for i, reason := range reasons {
		if soft := i == s.soft(); soft || over == nil {
			x.Limits = append(x.Limits, LimitExplanation{Reason: reason, Soft: soft})
		} else { // what it said beside the grace limit counts
			x.Limits = append(x.Limits, LimitExplanation{Reason: over[i]})
		}
	}
	if over != nil {
		x.Limits = append(x.Limits, LimitExplanation{Reason: over[len(over)-1], Grace: true})
	}
	for i := range l.candidates {
		c := &l.candidates[i]
		on := CandidateExplanation{Candidate: c.Candidate, Allowed: true}
		if plan := c.plans[s]; plan != nil {
			if on.Limits = dry.reasons[sluice.Charge{Plan: plan, Key: key, Cost: x.Cost}]; on.Limits == nil {
				continue
			}
		} else if on.Allowed, on.Skipped = false, "it has no limits for the tier "+x.Tier; x.Override != nil {
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

// overridden returns the override that gives a key limits of its own, nil if none
// does.
func (l *level) overridden(key string, now time.Time) *Override {
	if o, ok := l.overrides[key]; !ok || !o.valid(now) {
		return nil
	}
	for i := range l.Overrides {
		if o := &l.Overrides[i]; encodeKey(o.Key) == key {
			return o
		}
	}
	return nil
}
