// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"time"

	"github.com/sluicegate/sluice"
)

// Policy is what happens to a request that the store does not decide.
type Policy = sluice.Failure

// The policies: Local decides under this node's [Share] of each limit, Closed
// refuses with an [UnavailableError].
const (
	Open   = sluice.FailOpen
	Local  = sluice.FailLocal
	Closed = sluice.FailClosed
)

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) { return sluice.ParseFailure(name) }

// Combine returns the policy of a request over several rules: closed beats local
// beats open. A policy that is none of these counts as closed. Without any it is
// [Open].
func Combine(all ...Policy) Policy {
	worst := Open
	for _, p := range all {
		worst = max(worst, min(p, Closed))
	}
	return worst
}

// UnavailableError is the answer to a request that the store did not decide and
// that no policy let pass. The request was not let through. What the store has
// counted for it is given back, if it says so within Options.LateTimeout.
type UnavailableError struct {
	// RetryAfter is after how long the store will have been tried again.
	RetryAfter time.Duration
	// Err is why the store did not decide.
	Err error
}

// Error says why the store did not decide.
func (e *UnavailableError) Error() string { return "failure: store unavailable: " + e.Err.Error() }

// Unwrap returns why the store did not decide.
func (e *UnavailableError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter: by this method fronts that do not know this type
// tell their clients.
func (e *UnavailableError) RetryIn() time.Duration { return e.RetryAfter }
