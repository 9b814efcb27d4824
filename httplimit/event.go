// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Event is a request's verdict and its reason. It may be kept, except Evaluated and Request.
type Event struct {
	evaluate.Event
	// Status is the status of the answer if the request was not passed on, 0 if it was.
	Status int
	// Request has the properties of the request by which rules decide.
	Request policy.Attributes

	answers ruleAnswers // nil if no rule has one
}

// status returns the status of the answer to a request that is not passed on.
func (all ruleAnswers) status(e *evaluate.Event) int {
	switch e.Verdict {
	case evaluate.Denied:
		if a := all.of(e); a != nil && a.status != 0 {
			return a.status
		}
		if e.Rule != nil {
			return cmp.Or(e.Rule.Status, http.StatusTooManyRequests)
		}
		return http.StatusTooManyRequests
	case evaluate.Refused:
		if _, ok := errors.AsType[*policy.TokenError](e.Err); ok {
			return http.StatusUnauthorized
		}
		if errors.Is(e.Err, evaluate.ErrNotAdmitted) {
			return http.StatusForbidden
		}
		return http.StatusBadRequest
	case evaluate.Abandoned, evaluate.FailedClosed:
		return http.StatusServiceUnavailable
	default:
		return 0
	}
}
