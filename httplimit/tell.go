// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"

	"github.com/sluicegate/sluice"
)

// Set writes what a client is told of a decision into the header of its answer:
// for fronts that decide by other means than a [Middleware]. The limit is the
// one that binds; policy is the value of RateLimit-Policy, a list of
// [PolicyItem] of all limits that applied. Zero means [Draft11]. It adds to
// RateLimit fields that are there already.
func (f Fields) Set(h http.Header, policy string, limit *sluice.Term, d sluice.Decision) {
	if f == 0 {
		f = Draft11
	}
	f.setFields(h, policy, limit, d)
}

// PolicyItem returns the item of RateLimit-Policy that describes a limit, whose
// Name may have no byte that a structured field's String must escape.
func PolicyItem(limit *sluice.Term) string { return string(appendPolicy(nil, limit)) }
