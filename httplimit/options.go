// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
)

// Options say what a [Middleware] does. Store and Rules are required; every
// other zero field means what it says.
type Options struct {
	Store sluice.Store

	// Rules are what a request is charged: all of them, or none. Their scopes
	// and the names of their limits must differ.
	Rules []Rule

	// Skip, if not nil, says which requests are passed on undecided.
	Skip func(*http.Request) bool

	// Shadow decides and reports, but denies, delays and tells the client
	// nothing. What would have been denied is not charged, as it would not be.
	Shadow bool

	// Failure is what happens when the store, or a function of the Options,
	// returns an error. The zero value is [FailOpen].
	Failure Failure

	// MaxWait is how long a request may be held back until it fits, whatever
	// the algorithm; at most sluice.MaxWait. Zero holds back only for limits
	// that queue, such as a leaky bucket, as long as these say, and never past
	// the deadline of the request's context.
	MaxWait time.Duration

	// Fields are the header fields of the answers. Zero means [Draft11].
	Fields Fields

	// Refuse, if not nil, writes the answer to a request that is not passed on:
	// e.Status says which. The header fields are set already. Nil means
	// [WriteProblem].
	Refuse func(w http.ResponseWriter, r *http.Request, e Event)

	// OnDecision, if not nil, is called once for every request to which a rule
	// applies, before it is passed on or answered; for one that is delayed,
	// after the delay. It must be safe for concurrent use and should be quick.
	OnDecision func(r *http.Request, e Event)

	// OnError, if not nil, is called with every error of the store, and of a
	// function of the Options that is not the client's fault; also with those
	// after the response. Nil logs them to slog.Default, at most one a second.
	OnError func(r *http.Request, err error)
}

// Rule charges a request to one key under the limits of one plan.
type Rule struct {
	// Plan has the limits. All must be of one unit, as they get the same cost.
	Plan *sluice.Plan
	Key  Key
	// Missing is what happens to a request without the key. The zero value is
	// [MissingRefused].
	Missing MissingKey
	// Cost is what a request costs. Zero means 1, or [ResponseBytes] if the
	// plan counts bytes.
	Cost Cost
	// RefundOn, if not nil, says which status of the response gives the units
	// back: a limit on failed logins refunds what succeeded.
	RefundOn func(status int) bool
}

// MissingKey is what happens to a request that lacks a rule's key. It is about
// keys that are not there or empty; those that are there and cannot be used
// are always refused.
type MissingKey uint8

// What may happen to a request without a key.
const (
	// MissingRefused answers 400 and names the missing part. No client gets by
	// unlimited by leaving something out.
	MissingRefused MissingKey = iota
	// MissingShared charges one key that all such requests share: the empty one.
	MissingShared
	// MissingSkipped leaves the rule out. If no rule is left the request is
	// passed on undecided.
	MissingSkipped
	missingKeys
)

// Failure is what happens to a request that could not be decided.
type Failure uint8

// The failure policies.
const (
	// FailOpen passes the request on: an outage of the limiter is not one of
	// the service. Choose FailClosed where a limit guards a secret.
	FailOpen Failure = iota
	// FailClosed answers 503, and when to retry: see [WriteProblem].
	FailClosed
	failures
)
