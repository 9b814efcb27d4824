// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/keys"
	"github.com/sluicegate/sluice/server/internal/outcome"
)

// MostTop is the number of keys of each level in an overview.
const MostTop = 5

// Top is the answer of GET /v1/top.
type Top struct {
	Levels []TopLevel `json:"levels"`
	Hidden bool       `json:"hidden,omitempty"` // keys are hashes: the caller has no token
}

// TopLevel holds the keys of a rule's level that were denied most.
type TopLevel struct {
	Rule  string   `json:"rule"`
	Level string   `json:"level,omitempty"`
	Total uint64   `json:"total"` // denials
	Keys  []TopKey `json:"keys"`
}

// TopKey is a key that was denied at least Least and at most Most times.
type TopKey struct {
	Parts map[string]string `json:"parts,omitempty"`
	Hash  string            `json:"hash,omitempty"` // instead of the parts
	Least uint64            `json:"least"`
	Most  uint64            `json:"most"`
}

// TopOf returns the keys of a level in the form in which they are shown: hashed by hide, or, if it
// is nil, in clear. This node's policy names their parts. If it does not have the level, or another node uses other parts,
// a key is one text.
func TopOf(p *policy.Policy, d *outcome.Denied, hide func(rule, key string) string) TopLevel {
	l := keys.Level(p, d.Rule, d.Level)
	top := TopLevel{Rule: d.Rule, Level: d.Level, Total: d.Total}
	for _, k := range d.Keys {
		key := TopKey{Least: k.Least, Most: k.Most}
		switch {
		case hide != nil:
			key.Hash = hide(d.Rule, k.Key)
		case l == nil:
			key.Parts = map[string]string{"key": k.Key}
		default:
			key.Parts = keys.PartsOf(l.Level, k.Key)
		}
		top.Keys = append(top.Keys, key)
	}
	return top
}
