// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import "time"

// UnavailableError is the answer to a request that the store did not decide and
// that no policy let pass. The request was not let through. What the store turns
// out to have counted for it is given back.
type UnavailableError struct {
	// RetryAfter is after how long the store will have been tried again.
	RetryAfter time.Duration
	// Err is why the store did not decide.
	Err error
}

// Error says why the store did not decide.
func (e *UnavailableError) Error() string { return "remote: store unavailable: " + e.Err.Error() }

// Unwrap returns why the store did not decide.
func (e *UnavailableError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter: by this method fronts that do not know this type
// notify their clients.
func (e *UnavailableError) RetryIn() time.Duration { return e.RetryAfter }
