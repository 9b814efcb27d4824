// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
)

// Rule says which requests are charged to whom under which limits. It is plain
// data; [Compile] says what is wrong with it. It may be read concurrently.
type Rule struct {
	// Name distinguishes rules, in states, metrics and answers: 1 to 64 of
	// [a-z0-9._-]. It is the scope of the rule's limits: two names are two
	// budgets, and a rule that keeps its name keeps its states.
	Name  string
	Match Match // the zero Match matches every request

	// Levels are the keys that a request is charged to: one level in most rules,
	// several in a hierarchy such as organisation, team, user. They are charged
	// all or none.
	Levels []Level

	Cost Cost // the zero Cost is 1
	// Shadow decides and reports, and never denies.
	Shadow bool
	// When, if not nil, counts only some responses.
	When *When
	// Shape slows bodies down rather than deny requests: the bytes that the rule
	// counts wait until its limits have room. Its Cost is in bytes, and it has
	// no Shadow, When, InFlight, Candidates or Status.
	Shape bool

	// ExemptNetworks are clients to whom the rule does not apply.
	ExemptNetworks []netip.Prefix
	// MaxWait is how long a request may be delayed until it fits, under every
	// limit of the rules that it is charged to; of several rules the least that is
	// not zero counts. Under limits that all queue, as a leaky bucket does, it
	// caps how long these delay it, which zero leaves to them. A rule that
	// counts responses, but does not hold, charges nothing that could wait. In a rule
	// that shapes it is how long each part of a body waits, and zero a minute.
	MaxWait time.Duration
	// Failure is what happens if the store cannot decide. The zero value is
	// [sluice.FailOpen].
	Failure sluice.Failure
	// Lease, if not nil, says that a node may take units of a hot key in
	// advance, see package remote. It is for a store that nodes share; the program that
	// wires the stores puts it into effect, by [Rule.Leased].
	Lease *sluice.LeaseTerms
	// Status is what an HTTP front answers a request that the rule denies: 400
	// to 599. Zero means 429.
	Status int
	// RetryJitter makes the answers to requests that the rule denies say a time to
	// come again that is a little later than need be, each another.
	RetryJitter Jitter
	// Answer, if not nil, is what an HTTP front says of the rule's limits in other
	// words than its own.
	Answer *Answer
}

// NewRule returns a rule that charges each request to its key under limits: the
// simple case, to which more can be set. A key of [All] is a level's By. Limits
// that count bytes charge the response's.
func NewRule(name string, key Part, limits ...sluice.Limit) Rule {
	l := Level{By: []Part{key}}
	if parts := key.Parts(); key.Source == source.All && len(parts) > 0 {
		l.By = parts
	}
	r := Rule{Name: name}
	for _, limit := range limits {
		l.Limits = append(l.Limits, Limit{Limit: limit})
		if limit.Unit == sluice.Bytes {
			r.Cost.Of = ResponseBytes
		}
	}
	r.Levels = []Level{l}
	return r
}

// Level is one key of a rule with its limits. It is not changed once compiled.
type Level struct {
	// Name distinguishes the levels of a rule; it may be empty in a rule that has
	// one.
	Name string
	// By are the parts of the key, all of which the request must have. None
	// means one budget for all requests.
	By []Part
	// Missing is what happens to a request without one of the parts.
	Missing Missing

	// Limits of a request whose key has no override and no plan. There may be
	// none if there is an InFlight.
	Limits []Limit
	// Unlimited says that such a request has no limits, which leaves those of the
	// Tiers: there are Tiers then, and no Limits.
	Unlimited bool
	// Blocks, each a limit of the algorithm sluice.Block, deny a key for a while
	// that the level's limits have denied too often, whichever apply to it: its own,
	// those of Tiers, Overrides and Candidates. What InFlight denies does not
	// count, nor does what another level denies. A rule with Blocks has no MaxWait,
	// Shape or Lease, and its When holds. Requests under it never wait until they fit.
	Blocks []sluice.Limit
	// InFlight, if not nil, caps how many requests of a key run at once. A zero
	// TTL means ten minutes: how long a request whose front has died counts.
	InFlight *sluice.SlotLimit
	// Tiers, if not nil, choose other limits by an attribute: free, pro.
	Tiers *Tiers
	// Overrides give single keys other limits.
	Overrides []Override
	// Candidates are limits that are evaluated beside the active ones.
	Candidates []Candidate
	// ExemptKeys are keys to whom the level does not apply, each the values of
	// all parts.
	ExemptKeys [][]string
}

// Like returns the level's limits and grace limits, each for
// [sluice.ParseLimitLike]: other limits that replace them are read by these.
func (l *Level) Like() (limits, graces []sluice.Limit) {
	for _, limit := range l.Limits {
		limits = append(limits, limit.Limit)
		if limit.Grace != nil {
			graces = append(graces, *limit.Grace)
		}
	}
	return limits, graces
}

// Limit is a limit of a rule. With Grace it is a soft one: what goes over it
// passes with a warning as long as the grace limit has units, and draws on
// these. A list of limits has at most one soft limit.
type Limit struct {
	sluice.Limit
	Grace *sluice.Limit
}

// String returns the limit's text; of a soft limit "soft 100/min grace 500/day".
func (l Limit) String() string {
	if l.Grace == nil {
		return l.Limit.String()
	}
	return "soft " + l.Limit.String() + " grace " + l.Grace.String()
}

// Tiers give requests other limits by the value of one attribute. Limits of one
// name share their state across tiers, so a key that changes its tier takes
// along what it has spent.
type Tiers struct {
	// By is the attribute: a header field that a trusted peer sets, or a claim.
	By Part
	// Limits are the limits of each value. A request with another value, with
	// none or with several gets the level's own Limits.
	Limits map[string][]Limit
	// Unlimited are the values whose requests have no limits. They pass without
	// the store being asked, and are counted as such. What limits requests in
	// flight is no matter of tiers, and holds for them, too.
	Unlimited []string
}

// MarshalText returns the limit's text, and no error.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText writes. Another text is an error, as in
// [sluice.ParseLimit].
func (l *Limit) UnmarshalText(text []byte) error {
	limit, soft := strings.CutPrefix(string(text), "soft ")
	limit, grace, graced := strings.Cut(limit, " grace ")
	if soft != graced {
		return fmt.Errorf("policy: limit %q: a soft limit needs a grace limit; use for example: soft 100/min grace 500/day", text)
	}
	l.Grace = nil
	if graced {
		l.Grace = new(sluice.Limit)
		if err := l.Grace.UnmarshalText([]byte(grace)); err != nil {
			return err
		}
	}
	return l.Limit.UnmarshalText([]byte(limit))
}

// Override gives one key other limits than its rule does.
type Override struct {
	Key     []string  `json:"key"` // the values of all parts
	Limits  []Limit   `json:"limits"`
	Expires time.Time `json:"expires,omitzero"` // from then on the override is void; zero: never
	Reason  string    `json:"reason"`           // required: for the audit log
	Author  string    `json:"author"`           // required
}

// Candidate is limits that deny nothing. They are evaluated together, on states of their
// own, as if they stood in the place of the level's limits. A request whose key has an
// override is not evaluated.
type Candidate struct {
	Name string // as a Rule's
	// Limits stand in the place of the level's own: no request of a tier that the
	// level's Tiers name is evaluated under them. There may be none if there are Tiers.
	Limits []sluice.Limit
	// Tiers stand in the place of the limits that the level's Tiers give to a tier. A
	// tier that is not among them is not evaluated.
	Tiers map[string][]sluice.Limit
}

// When makes a rule count only requests whose response is of a certain status,
// or was not seen: see [Response.Unseen]. A request is let in if the limits have
// room for it and charged once its response is known. Requests that run at the
// same time are let in together, so as many as run at once may pass beyond the
// quota, unless Hold.
type When struct {
	Status []Status
	// Hold charges the request when it comes and refunds it if its response
	// does not count: never beyond the quota, but what runs meanwhile and would
	// not count may be denied.
	Hold bool
}

// Status is a range of response codes, both ends included.
type Status struct{ From, To int }

// Class returns the codes of a hundred: Class(4) is 400 to 499.
func Class(hundred int) Status { return Status{hundred * 100, hundred*100 + 99} }

// Code returns a single response code.
func Code(code int) Status { return Status{code, code} }

// String returns "4xx" of a class, "401" of a code, "401-403" of a range.
func (s Status) String() string {
	switch {
	case s == Class(s.From/100):
		return fmt.Sprintf("%dxx", s.From/100)
	case s.From == s.To:
		return strconv.Itoa(s.From)
	default:
		return fmt.Sprintf("%d-%d", s.From, s.To)
	}
}

func (w *When) counts(status int) bool {
	for _, s := range w.Status {
		if s.From <= status && status <= s.To {
			return true
		}
	}
	return false
}

// Missing is what happens to a request without a part of a level's key. It is
// about parts that are not there or empty. One that is sent more than once is
// always refused: the limiter might charge one value and the application use
// another.
type Missing uint8

// What may happen to a request without a part of the key.
const (
	// Refuse refuses the request and names the part: no client gets by
	// unlimited by leaving something out. In a shadow rule it is only reported.
	Refuse Missing = iota
	// Share charges one key that all such requests share.
	Share
	// Skip leaves the level out.
	Skip
	missings
)

var missingNames = [...]string{Refuse: "refuse", Share: "share", Skip: "skip"}

// String returns the name used in configuration.
func (m Missing) String() string {
	if m < missings {
		return missingNames[m]
	}
	return fmt.Sprintf("Missing(%d)", uint8(m))
}
