// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import "time"

// UnavailableError is the error of a request that the store did not decide and that no
// policy let through. Units that the store turns out to have charged are given back.
type UnavailableError struct {
	// RetryAfter is the time by which the store will have been probed again.
	RetryAfter time.Duration
	// Err is why the store did not decide.
	Err error
}

// Error returns why the store did not decide.
func (e *UnavailableError) Error() string { return "remote: store unavailable: " + e.Err.Error() }

// Unwrap returns Err.
func (e *UnavailableError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter. Fronts that do not know this type read the time by this
// method.
func (e *UnavailableError) RetryIn() time.Duration { return e.RetryAfter }
