// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"time"
)

// Policy is what happens to a request that the store does not decide. The zero
// value is [Open].
type Policy uint8

// The policies.
const (
	// Open lets the request through, uncounted: an outage of the limiter is not
	// one of the service.
	Open Policy = iota
	// Local decides in the memory of this process, under this node's [Share] of
	// each limit.
	Local
	// Closed refuses the request with an [UnavailableError]: for limits that
	// guard a secret.
	Closed
	policies
)

var policyNames = [...]string{Open: "open", Local: "local", Closed: "closed"}

// String returns the name used in configuration.
func (p Policy) String() string {
	if p < policies {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("failure: unknown policy %q; write open, local or closed", name)
}

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
