// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"iter"
	"net/http"
)

// Settlement is what a handler has to do once a request's response is known. A
// handler within it that passes the request on to an upstream may take that over,
// and return before the response is there.
type Settlement struct {
	// Settle puts right what the request was charged. It blocks for a second at
	// most.
	Settle func(Outcome)
	// Presume charges the request as if its response will count. It blocks for a
	// second at most.
	Presume func()
	// Keys are the keys that wait for it, at least one. They are valid until Settle
	// is called.
	Keys iter.Seq[string]

	taken bool
}

// Outcome is the outcome of a request whose client has left.
type Outcome struct {
	Status  int
	Header  func(name string) []string // of the response, by canonical name; nil: none
	Unseen  bool                       // the upstream may have acted on it, and its response was not seen
	Running bool                       // the upstream may still work on it
	// Upstream is its outcome there, nil if nobody wants to know.
	Upstream *Upstream
}

// Taken reports whether somebody else settles. It is for the goroutine of the
// request's handler.
func (s *Settlement) Taken() bool { return s.taken }

// Settles reports whether a handler around w waits for the response.
func Settles(w http.ResponseWriter) bool {
	for s := range settlements(w) {
		if !s.taken {
			return true
		}
	}
	return false
}

// Keys are the keys that wait for the response.
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

// TakeOver takes over what all handlers around w have to do, and returns what does
// it once the response is known. Until then the request is charged as if that will
// count. From then on nothing that belongs to the handlers' request may be read or
// written but by this.
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

// settlements are those of the handlers around w, the inner ones first.
func settlements(w http.ResponseWriter) iter.Seq[*Settlement] {
	return func(yield func(*Settlement) bool) {
		for x := range around(w) {
			if x.Settlement != nil && !yield(x.Settlement) {
				return
			}
		}
	}
}

// around are the Exchanges of w, the inner ones first.
func around(w http.ResponseWriter) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		for x := nearest(w); x != nil && yield(x); x = x.outer {
		}
	}
}

// nearest returns the innermost Exchange of w, nil if there is none, found as
// [http.ResponseController] finds what it needs.
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
