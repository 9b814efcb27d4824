// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

// Failure is the policy for a request that the store does not decide. The zero value is
// [FailOpen]. Of several the greatest applies: closed beats local
// beats open.
type Failure uint8

// The failure policies.
const (
	// FailOpen lets the request through, uncounted: an outage of the limiter is
	// not one of the service. A caller that does not wait for the store gets an error.
	FailOpen Failure = iota
	// FailLocal decides in the memory of this process, under its [Limit.Share] of each
	// limit. Without a local store, or if that cannot decide either, the request is refused.
	// So is a cost that is above the share but not above the limit, with a [*RequestError] of
	// the field Cost: smaller parts may pass.
	FailLocal
	// FailClosed refuses the request: for limits that guard a secret.
	FailClosed
)

var failureNames = [...]string{FailOpen: "open", FailLocal: "local", FailClosed: "closed"}

// String returns the name used in configuration.
func (f Failure) String() string { return nameOf(f, failureNames[:], "Failure") }
