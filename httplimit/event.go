// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Verdict is what became of a request.
type Verdict uint8

// The verdicts.
const (
	Allowed      Verdict = iota // every limit allowed it; it was passed on
	Denied                      // a limit denied it: 429, or the rule's status
	Shadowed                    // passed on, but a rule in shadow mode would have denied it
	Refused                     // it has no usable key, cost or token, or is not let in: 400, 401, 403
	Abandoned                   // its context ended before its turn came: 503, units given back
	FailedOpen                  // the store failed; passed on undecided
	FailedClosed                // the store failed, or too many wait: 503
	verdicts
)

var verdictNames = [...]string{
	Allowed: "allowed", Denied: "denied", Shadowed: "shadowed", Refused: "refused",
	Abandoned: "abandoned", FailedOpen: "failed-open", FailedClosed: "failed-closed",
}

// String returns the verdict's name, fit for a metric's label.
func (v Verdict) String() string {
	if v < verdicts {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Event is a request's verdict and its reason. It may be kept, but for Judged.
type Event struct {
	Verdict Verdict
	// Status is the status of the answer if the request was not passed on. It is 0
	// if it was.
	Status int
	// Decision is the store's; zero if it made none.
	Decision sluice.Decision
	// Limit is the one that binds, by the name that clients read, and Charge what
	// it was charged. Limit is nil if the store made no decision.
	Limit  *sluice.Term
	Charge sluice.Charge
	// Violated holds the names of the limits that denied, the binding one first;
	// of a request that is Shadowed, those that would have.
	Violated []string
	// Err is why there is no decision: a [*policy.PartError] or a
	// [*policy.TokenError] if Refused, the context's error if Abandoned, and the
	// error of the store or of a function if failed.
	Err error
	// Judged is what the policy had to say, nil if it was not asked. It is valid
	// only until OnDecision returns.
	Judged *policy.Verdict
}
