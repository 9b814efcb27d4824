// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
)

// Rule selects requests, and charges them to keys under limits. It is plain data; [Compile]
// reports its faults. It may be read concurrently.
type Rule struct {
	// Name distinguishes rules, in states, metrics and answers: 1 to 64 of
	// [a-z0-9._-]. It is the scope of the rule's limits: rules of different names have
	// different budgets, and a rule that keeps its name keeps its states.
	Name  string
	Match Match // the zero Match matches every request

	// Levels are the keys that a request is charged to: one level in most rules,
	// several in a hierarchy such as organisation, team, user. They are charged
	// all or none.
	Levels []Level

	Cost Cost // the zero Cost is 1
	// HoldFor, if not zero, is the longest time for which the units charged on arrival are
	// held, if the Cost is known only afterwards: from [sluice.MinHold] to [sluice.MaxHold].
	// If the front dies meanwhile, the units come back by themselves. A request that ends
	// after that time is charged its whole cost then. See [sluice.Hold].
	// It has no effect on requests that may be delayed, and in shadow rules.
	HoldFor time.Duration
	// Shadow makes the rule decide and report, but never deny.
	Shadow bool
	// When, if not nil, makes the rule count only some responses.
	When *When
	// Shape makes the rule slow bodies down rather than deny requests: the bytes that it
	// counts wait until its limits have room. Its Cost is in bytes, and it has no Shadow,
	// When, InFlight, Candidates or Status.
	Shape bool

	// ExemptNetworks contain the clients that the rule does not apply to.
	ExemptNetworks []netip.Prefix
	// MaxWait is how long a request may be delayed until it fits all its limits; of several
	// rules the least MaxWait that is not zero applies. If all limits queue, as a leaky bucket
	// does, it caps the delay, and zero leaves the delay to the limits. A rule that counts
	// responses without ChargeFirst charges nothing that could wait. In a rule that shapes it
	// is how long each part of a body waits, and zero is a minute.
	MaxWait time.Duration
	// Failure is the failure policy if the store cannot decide. The zero value is
	// [sluice.FailOpen].
	Failure sluice.Failure
	// Lease, if not nil, lets a node take units of a hot key in advance, see package
	// remote. It is for a store that nodes share; the program that sets up the stores
	// applies it, by sluice.Plan.Lease.
	Lease *sluice.LeaseTerms
	// Status is an HTTP front's status for a request that the rule denies: 400 to 599.
	// Zero means 429.
	Status int
	// RetryJitter lengthens the time to retry in each answer to a denial by a random
	// amount.
	RetryJitter Jitter
	// Answer, if not nil, replaces parts of an HTTP front's answers about the rule's
	// limits.
	Answer *Answer
}

// NewRule returns a rule that charges each request to its key under limits; more of its
// fields may be set. A key of [All] becomes the level's By. Limits that count bytes charge
// the response's bytes.
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
	// By are the parts of the key. The request must have all of them. Without parts, all
	// requests share one budget.
	By []Part
	// Missing is the treatment of a request without one of the parts.
	Missing Missing

	// Limits apply to requests whose key has no override and no tier. They may be empty if
	// there is an InFlight.
	Limits []Limit
	// Unlimited says that such requests have no limits. Then there are no Limits, and Tiers
	// have limits.
	Unlimited bool
	// Blocks, each a limit of the algorithm sluice.Block, deny a key for a while after too
	// many denials by the level's limits: its own and those of Tiers, Overrides and
	// Candidates. Denials by InFlight and by other levels do not count. A rule with Blocks
	// has no MaxWait, Shape or Lease, and its When charges first. A MaxWait of the Evaluator does
	// not delay its requests.
	Blocks []sluice.Limit
	// InFlight, if not nil, caps how many requests of a key run at once. A zero TTL means
	// ten minutes: the slots of a front that has died expire after that time.
	InFlight *sluice.SlotLimit
	// Tiers, if not nil, choose other limits by an attribute, such as free and pro.
	Tiers *Tiers
	// Overrides give single keys other limits.
	Overrides []Override
	// Candidates are limits that are evaluated beside the active ones.
	Candidates []Candidate
	// ExemptKeys are keys to which the level does not apply, each as the values of all
	// parts.
	ExemptKeys [][]string
}

// Limit is a limit of a rule. With Grace it is a soft limit: requests over it pass with a
// warning as long as the grace limit has units for them. A list of limits has at most one
// soft limit.
type Limit struct {
	sluice.Limit
	Grace *sluice.Limit
}

// String returns the limit's text; for a soft limit "soft 100/min grace 500/day".
func (l Limit) String() string {
	if l.Grace == nil {
		return l.Limit.String()
	}
	return "soft " + l.Limit.String() + " grace " + l.Grace.String()
}

// Tiers give requests other limits by the value of one attribute. Limits of one name share
// their state across tiers, so a key whose tier changes keeps the units that it has spent.
type Tiers struct {
	// By is the attribute: a header field that a trusted peer sets, or a claim.
	By Part
	// Limits are the limits of each value. A request with another value, with none or with
	// several gets the level's own Limits.
	Limits map[string][]Limit
	// Unlimited are the values whose requests have no limits: they pass without a call of
	// the store and are counted as such. InFlight applies to them even so.
	Unlimited []string
}

// MarshalText returns the limit's text and no error. Unlike String it always names the
// algorithm: a text without one stands for that of the limit which it replaces.
func (l Limit) MarshalText() ([]byte, error) {
	text := withAlgorithm(&l.Limit)
	if l.Grace != nil {
		text = "soft " + text + " grace " + withAlgorithm(l.Grace)
	}
	return []byte(text), nil
}

func withAlgorithm(l *sluice.Limit) string {
	text, name := l.String(), l.Filled().Algorithm.String()
	if slices.Contains(strings.Fields(text), name) {
		return text
	}
	return text + " " + name
}

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

// Candidate is a list of limits that deny nothing. They are evaluated together, on states of
// their own, as if they replaced the level's limits. Requests whose key has an override are
// not evaluated.
type Candidate struct {
	Name string // as a Rule's
	// Limits replace the level's own; requests of a tier in the level's Tiers are not
	// evaluated under them. They may be empty if there are Tiers.
	Limits []sluice.Limit
	// Tiers replace the limits of a tier in the level's Tiers. Other tiers are not
	// evaluated.
	Tiers map[string][]sluice.Limit
}

// When makes a rule count only requests whose response has a certain status, or was not
// seen: see [Response.Unseen]. A request passes if it fits, and is charged once its response
// is known. Requests that run at the same time pass together, so that as many as run at once
// may exceed the quota, unless ChargeFirst.
type When struct {
	Status []Status
	// ChargeFirst charges the request on arrival and refunds it if its response does not
	// count. The quota is never exceeded, but requests that would not count may be denied
	// meanwhile.
	ChargeFirst bool
}

// Status is a range of response codes, both ends included.
type Status struct{ From, To int }

// Class returns the codes of a class: Class(4) is 400 to 499.
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

// Missing is the treatment of a request in which a part of a level's key is absent or empty. A
// part that is sent more than once is always refused: the limiter might charge
// one value and the application use another.
type Missing uint8

// The treatments of a request without a part of the key.
const (
	// Refuse refuses the request and names the part, so that no client evades limits by
	// leaving something out. In a shadow rule it is only reported.
	Refuse Missing = iota
	// Share charges all such requests to one key.
	Share
	// Skip does not apply the level.
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
