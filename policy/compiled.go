// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
)

// rule is a compiled Rule.
type rule struct {
	bare     bool // the index checks all that the rule matches
	levels   []CompiledLevel
	patterns []pattern
	except   []pattern
	*Rule
}

// CompiledLevel is a [Level] of a [Policy] with its limits as the store takes them. It is
// for the code that decides requests, such as package evaluate. It must not be changed and
// may be read concurrently.
type CompiledLevel struct {
	*Level
	Rule *Rule
	// Scope is the scope of the level's plans and slots in the store: the rule's name,
	// followed by a slash and the level's name if it has one.
	Scope string
	// Limited says that the level has limits besides InFlight.
	Limited bool
	// Base are the Limits; nil if the level has none.
	Base *Set
	// ByTier are the limits of each of the Tiers; nil for a tier without limits.
	ByTier map[string]*Set
	// ByOverride are the limits of each of the Overrides, in their order, and ByKey the
	// indexes of these by the keys that [Matches.Key] returns.
	ByOverride []*Set
	ByKey      map[string]int
	// ByCandidate are the plans of each of the Candidates, in their order, by the limits that
	// they would replace.
	ByCandidate []map[*Set]*sluice.Plan
	// Slots is InFlight with its defaults.
	Slots sluice.SlotLimit

	parts    []keyPart
	exempt   map[string]struct{}
	tierPart keyPart
}

// Set is a compiled list of limits. It must not be changed.
type Set struct {
	Take *sluice.Plan // the hard limits and, last, the soft one
	Over *sluice.Plan // the hard limits and the grace limit; nil without a soft limit
	All  *sluice.Plan // all of them, the grace limit last
	Soft int          // the index of the soft limit in Take, -1 if none is soft
}

// keyPart is a Part with its finder, which groups addresses, and its own parts.
type keyPart struct {
	Part
	finder *clientip.Finder
	of     []keyPart
}
