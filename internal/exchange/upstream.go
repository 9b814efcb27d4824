// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"net/http"
	"time"
)

// Upstream is the outcome of a request that was passed on to an upstream. One
// without a URL was not.
type Upstream struct {
	Route string // the host and path of the route that the request took; empty: that of all requests, or none
	URL   string // of the upstream
	// Status is that of the upstream's response, 0 if none came. What is sent in its
	// place is the handler's own.
	Status int
	// Err is why no response came, or not all of it; nil if it came whole. That of a
	// client that left is context.Canceled.
	Err    error
	Header time.Duration // from when the request was passed on to the response's header; 0: none came
	Took   time.Duration // to the response's end, or that of the attempt
	Bytes  int64         // of the response's body that were passed on, and of a connection that has switched protocol
}

// Observe returns where the outcome of the request at an upstream is noted.
// Handlers around one another share it.
func (x *Exchange) Observe() *Upstream {
	if x.upstream == nil {
		if x.upstream = x.outer.observed(); x.upstream == nil {
			x.upstream = &x.noted
		}
	}
	return x.upstream
}

// Observed returns where to note the outcome of a request at an upstream,
// nil if no handler around w wants to know.
func Observed(w http.ResponseWriter) *Upstream { return nearest(w).observed() }

func (x *Exchange) observed() *Upstream {
	for ; x != nil; x = x.outer {
		if x.upstream != nil {
			return x.upstream
		}
	}
	return nil
}
