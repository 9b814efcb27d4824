// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"iter"
	"slices"
)

// freed is a level of an active rule under which a request has no limits.
type freed struct {
	rule  *Rule
	level *Level
}

// Unlimited returns the levels of active rules that apply to the request and do not limit
// it, as its tier has no limits. Outcomes does not yield them.
func (v *Verdict) Unlimited() iter.Seq2[*Rule, *Level] {
	return func(yield func(*Rule, *Level) bool) {
		for _, f := range v.free {
			if !yield(f.rule, f.level) {
				return
			}
		}
	}
}

// Free reports whether requests of a tier have no limits. The empty tier stands for requests
// whose tier is not named.
func (l *Level) Free(tier string) bool {
	if l.Tiers != nil && tier != "" {
		if slices.Contains(l.Tiers.Unlimited, tier) {
			return true
		}
		if _, named := l.Tiers.Limits[tier]; named {
			return false
		}
	}
	return l.Unlimited
}
