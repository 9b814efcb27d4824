// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"fmt"

	"github.com/sluicegate/sluice"
)

// Verdict is what became of a request.
type Verdict uint8

// The verdicts.
const (
	Allowed      Verdict = iota // every limit allowed it; it was passed on
	Denied                      // a limit denied it: 429
	Shadowed                    // a limit denied it, but in shadow mode it was passed on
	Refused                     // it has no usable key or cost: 400, or in shadow mode passed on
	Abandoned                   // its context ended before its turn came: 503, units given back
	FailedOpen                  // the store failed; passed on undecided
	FailedClosed                // the store failed: 503, or in shadow mode passed on
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

// Event is a request's verdict and its reason. It is a value that may be kept.
type Event struct {
	Verdict Verdict
	// Status is the status of the answer if the request was not passed on: 429,
	// 400 or 503. It is 0 if it was.
	Status int
	// Decision is the store's; zero if it made none.
	Decision sluice.Decision
	// Limit is the one that binds, and Charge what it was charged. Limit is nil
	// if the store made no decision.
	Limit  *sluice.Term
	Charge sluice.Charge
	// Violated holds the names of the limits that denied, the binding one first.
	Violated []string
	// Err is why there is no decision: a [*RequestError] or a
	// [*sluice.RequestError] if Refused, the context's error if Abandoned, and
	// the error of the store or of a function of the Options if failed.
	Err error
}
