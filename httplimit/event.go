// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/policy"
)

// Event is a request's verdict and its reason. It may be kept, except Evaluated.
type Event struct {
	policy.Event
	// Status is the status of the answer if the request was not passed on, 0 if it was.
	Status int
}

// status returns the status of the answer to a request that is not passed on.
func status(e *policy.Event) int {
	switch e.Verdict {
	case policy.Denied:
		if a := e.Answer(); a != nil && a.Status != 0 {
			return a.Status
		}
		if e.Rule != nil {
			return cmp.Or(e.Rule.Status, http.StatusTooManyRequests)
		}
		return http.StatusTooManyRequests
	case policy.Refused:
		if _, ok := errors.AsType[*policy.TokenError](e.Err); ok {
			return http.StatusUnauthorized
		}
		if errors.Is(e.Err, policy.ErrNotAdmitted) {
			return http.StatusForbidden
		}
		return http.StatusBadRequest
	case policy.Abandoned, policy.FailedClosed:
		return http.StatusServiceUnavailable
	default:
		return 0
	}
}
