// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import "time"

// UnavailableError is the error of a request that the store did not decide and that no policy
// allowed. If the store has charged units for it, they are given back.
type UnavailableError struct {
	// RetryAfter is the time until the store has been probed again.
	RetryAfter time.Duration
	// Err is the reason why the store did not decide.
	Err error
}

// Error returns the reason why the store did not decide.
func (e *UnavailableError) Error() string { return "remote: store unavailable: " + e.Err.Error() }

// Unwrap returns Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter, for fronts that do not know this type.
func (e *UnavailableError) RetryIn() time.Duration { return e.RetryAfter }
