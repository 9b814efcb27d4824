// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"net/http"
	"time"
)

// Upstream is the outcome of a request at an upstream. Without a URL the request was not
// passed on.
type Upstream struct {
	Route string // the host and path of the request's route; empty: the route of all requests, or none
	URL   string // of the upstream
	// Status is the status of the upstream's response, or 0 without one. It differs from the
	// status of an error response that the handler sends.
	Status int
	// Err is the reason why no response came, or only a part of one; nil if it came whole. For
	// a client that left it is context.Canceled.
	Err    error
	Header time.Duration // from passing on the request to the response's header; 0 without one
	Took   time.Duration // until the end of the response or the attempt
	Bytes  int64         // passed on of the response's body and of a connection that has switched protocol
}

// Observe returns the record of the outcome at an upstream. Nested handlers share it.
func (x *Exchange) Observe() *Upstream {
	if x.upstream == nil {
		if x.upstream = x.outer.observed(); x.upstream == nil {
			x.upstream = &x.noted
		}
	}
	return x.upstream
}

// Observed returns the record for the outcome at an upstream, or nil if no handler around w
// observes it.
func Observed(w http.ResponseWriter) *Upstream { return nearest(w).observed() }

func (x *Exchange) observed() *Upstream {
	for ; x != nil; x = x.outer {
		if x.upstream != nil {
			return x.upstream
		}
	}
	return nil
}
