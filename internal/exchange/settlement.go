// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"iter"
	"net/http"
)

// Settlement is the work of a handler once a request's response is known. An inner handler
// that passes the request on to an upstream may take it over, and return before the response.
type Settlement struct {
	// Settle corrects the request's charge. It blocks for at most a second.
	Settle func(Outcome)
	// Presume charges the request as if its response counted. It blocks for at most a second.
	Presume func()
	// Keys are the keys that await the response, at least one. They are valid until Settle is
	// called.
	Keys iter.Seq[string]

	taken bool
}

// Outcome is the outcome of a request whose client has left.
type Outcome struct {
	Status  int
	Header  func(name string) []string // of the response, by canonical name; nil without one
	Unseen  bool                       // the upstream may have acted on the request, and its response was not seen
	Running bool                       // the upstream may still work on it
	// Upstream is the outcome at the upstream, or nil if nobody observes it.
	Upstream *Upstream
}

// Taken reports whether the settlement was taken over. Only the goroutine of the request's
// handler may call it.
func (s *Settlement) Taken() bool { return s.taken }

// Settles reports whether a handler around w awaits the response.
func Settles(w http.ResponseWriter) bool {
	for s := range settlements(w) {
		if !s.taken {
			return true
		}
	}
	return false
}

// Keys returns the keys that await the response.
func Keys(w http.ResponseWriter) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range settlements(w) {
			for key := range s.Keys {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// TakeOver takes over the settlements of all handlers around w and returns the function that
// settles once the response is known. Until then the request is charged as if its response
// counted. From then on only this function may use the memory of the handlers' request.
func TakeOver(w http.ResponseWriter) func(Outcome) {
	var all []*Settlement
	for s := range settlements(w) {
		if !s.taken {
			s.taken = true
			s.Presume()
			all = append(all, s)
		}
	}
	return func(o Outcome) {
		for _, s := range all {
			s.Settle(o)
		}
	}
}

// settlements returns the settlements of the handlers around w, inner ones first.
func settlements(w http.ResponseWriter) iter.Seq[*Settlement] {
	return func(yield func(*Settlement) bool) {
		for x := range around(w) {
			if x.Settlement != nil && !yield(x.Settlement) {
				return
			}
		}
	}
}

// around returns the Exchanges of w, inner ones first.
func around(w http.ResponseWriter) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		for x := nearest(w); x != nil && yield(x); x = x.outer {
		}
	}
}

// nearest returns the innermost Exchange of w, or nil. It unwraps writers as
// [http.ResponseController] does.
func nearest(w http.ResponseWriter) *Exchange {
	for {
		if x := Of(w); x != nil {
			return x
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
}
