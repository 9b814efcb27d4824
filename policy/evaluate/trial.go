// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"iter"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Trial is the result of limits without effect: a shadow rule, or a candidate.
type Trial struct {
	Rule      *policy.Rule
	Level     *policy.Level     // of a candidate, or of a shadow rule without a usable key; else nil
	Candidate *policy.Candidate // nil for a shadow rule
	Shadow    bool
	Key       string // of the limit that binds
	Cost      int64  // units
	Allowed   bool
	Decision  sluice.Decision
	Limit     *sluice.Term // the limit that binds
	Err       error        // the reason why there is no result
	several   bool         // the key may have several limits
}

// Trials returns the results of shadow rules and candidates. A shadow rule is evaluated
// as if it were alone, and a candidate as if it replaced its level: neither considers
// denials by other rules.
func (v *Verdict) Trials() iter.Seq[Trial] {
	return func(yield func(Trial) bool) {
		for _, s := range v.sideErrs {
			if !yield(s) {
				return
			}
		}
		for i := v.enforced; i < len(v.asks); i++ {
			k := &v.asks[i]
			c := &v.charges[k.first]
			s := Trial{Rule: c.level.rule.Rule, Shadow: c.level.rule.Shadow, Allowed: k.result.Err == nil && k.result.Decision.Allowed, Decision: k.result.Decision, Err: k.result.Err}
			if k.role == candidacy {
				s.Level, s.Candidate = c.level.Level, &c.level.Candidates[c.candidate]
			} else if c.set != nil { // the rule has a limit
				s.several = c.set.several
			}
			s.Key, s.Cost = c.Key, c.Cost
			if s.Err == nil {
				var req sluice.Request
				v.request(&req, k, sluice.OpPeek)
				charge, term := req.ChargeAt(s.Decision.Binding)
				s.Key, s.Cost, s.Limit = charge.Key, charge.Cost, charge.Plan.Term(term)
			}
			if !yield(s) {
				return
			}
		}
	}
}
