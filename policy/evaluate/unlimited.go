// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"iter"

	"github.com/sluicegate/sluice/policy"
)

// freed is a level of an active rule under which a request has no limits.
type freed struct {
	rule  *policy.Rule
	level *policy.Level
}

// Unlimited returns the levels of active rules that apply to the request and do not limit
// it, as its tier has no limits. Outcomes does not yield them.
func (v *Verdict) Unlimited() iter.Seq2[*policy.Rule, *policy.Level] {
	return func(yield func(*policy.Rule, *policy.Level) bool) {
		for _, f := range v.free {
			if !yield(f.rule, f.level) {
				return
			}
		}
	}
}
