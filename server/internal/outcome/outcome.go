// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package outcome holds the counts of a rule as data: package tally counts them, nodes exchange
// them, and pages show them.
package outcome

import "github.com/sluicegate/sluice/server/internal/history"

// Places is the number of keys kept for a rule's level.
const Places = 100

// Report is the counts of a rule.
type Report struct {
	Rule string
	Counts
	Candidates []CandidateReport
	Priced     bool   // its cost is in a header field of the response
	Unstated   uint64 // responses without that field
}

// CandidateReport is the number of denials that a candidate would have made.
type CandidateReport struct {
	Level     string `json:"level,omitempty"`
	Name      string `json:"name"`
	Evaluated uint64 `json:"evaluated"`
	WouldDeny uint64 `json:"would_deny"`
	Rescued   uint64 `json:"rescued,omitempty"` // recent denials of the rule that it would have allowed; in reports only
}

// Counts are the outcomes of requests under a rule at one instant.
type Counts struct {
	history.Counts
	Evaluated uint64 `json:"evaluated"`
	Unlimited uint64 `json:"unlimited"` // allowed, as their tier has no limits
}

// IsZero reports whether nothing was counted.
func (c Counts) IsZero() bool { return c == Counts{} }

// Plus returns what was counted in c and o together.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Counts.Plus(o.Counts), c.Evaluated + o.Evaluated, c.Unlimited + o.Unlimited}
}

// Max returns the largest count.
func (c Counts) Max() uint64 { return max(c.Counts.Max(), c.Evaluated, c.Unlimited) }

// Denied holds the keys of a rule's level with the most denials.
type Denied struct {
	Rule   string     `json:"-"`
	Level  string     `json:"n,omitempty"`
	Total  uint64     `json:"t"`           // denials of the level
	Recent uint64     `json:"r,omitempty"` // recently
	Rest   uint64     `json:"o,omitempty"` // most denials of a key that is not among Keys
	Keys   []KeyCount `json:"k"`
}

// KeyCount bounds the count of a key: it lies from Least to Most, of which at least Recent are
// recent.
type KeyCount struct {
	Key    string `json:"k"`
	Least  uint64 `json:"l"`
	Most   uint64 `json:"m"`
	Recent uint64 `json:"r,omitempty"`
}

// Cause is a cause of refused requests, with their numbers.
type Cause struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
	Recent uint64 `json:"recent"` // in the last 10 to 11 minutes
	Total  uint64 `json:"total"`
}
