// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Cost is the cost of a request in units. The zero Cost is 1.
//
// A cost that is known only after the response is charged as an estimate on arrival and
// settled afterwards: package evaluate does both.
type Cost struct {
	Of CostOf
	// Units are the cost of Fixed, or the estimate of a header's cost. Zero means 1.
	Units int64
	// Header is the field that RequestHeader and ResponseHeader read.
	Header string
	// Most is the largest number that RequestHeader and ResponseHeader accept; a larger
	// one counts as Most. It is required: without it a mistake of the peer could spend a
	// budget for good.
	Most int64
	// Func, if not nil, computes the cost; nothing else is set then.
	Func *CostFunc
}

// CostFunc is a cost that functions compute. They must be safe for concurrent use.
type CostFunc struct {
	// Before returns the cost, or an estimate, of a request on arrival. Nil means 1. A
	// [*PartError] refuses the request; any other error is treated as a store error.
	Before func(Attributes) (int64, error)
	// After, if not nil, returns the actual cost. Below 0 the cost stays as charged. The
	// Response is valid only until After returns.
	After func(Attributes, *Response) int64
}

// CostOf is the measure of a [Cost].
type CostOf uint8

// The costs.
const (
	// Fixed is Units for every request.
	Fixed CostOf = iota
	// RequestBytes is the size of the request's body. On arrival it is the
	// Content-Length, or 1 without one; afterwards the number of bytes read, including
	// those after a switch of protocols. Meter of an evaluate.Call charges a body of unknown length
	// while it is read.
	RequestBytes
	// ResponseBytes is the size of the response's body: 1 on arrival.
	ResponseBytes
	// RequestHeader is a whole number in a request header field that a trusted peer
	// sets. Without a usable number the cost is Units.
	RequestHeader
	// ResponseHeader is a whole number in a response header field: Units on arrival.
	// Without a usable number, or if the response was not seen, the cost stays Units.
	ResponseHeader
	// Milliseconds is how long the request ran, rounded up, from when it passed
	// until its response was written or its client had left, without any delay before. It
	// is 1 on arrival. Requests in flight may exceed a limit, as under every cost that is
	// known only afterwards; the excess is owed: see [Rule.Counted].
	Milliseconds
	costs
)

// String returns the cost's text: "1", "response-bytes", "response-header X-Cost most 1000".
func (c Cost) String() string {
	if c.Func != nil {
		return "func"
	}
	switch c.Of {
	case RequestBytes:
		return "request-bytes"
	case ResponseBytes:
		return "response-bytes"
	case RequestHeader, ResponseHeader:
		word := "request-header"
		if c.Of == ResponseHeader {
			word = "response-header"
		}
		return fmt.Sprintf("%s %s most %d", word, c.Header, c.Most)
	case Milliseconds:
		return "milliseconds"
	default:
		return strconv.FormatInt(cmp.Or(c.Units, 1), 10)
	}
}

// bytes reports whether the cost counts bytes.
func (c Cost) bytes() bool { return c.Of == RequestBytes || c.Of == ResponseBytes }

// Afterwards reports whether the cost may change once the response is known.
func (c Cost) Afterwards() bool {
	return c.Of == RequestBytes || c.Of == ResponseBytes || c.Of == ResponseHeader || c.Of == Milliseconds || c.Func != nil && c.Func.After != nil
}

// NeverAdmits returns the reason why no request of the rule ever fits a limit: each is charged
// more on arrival than an idle key has. It returns "" if one may fit. For a cost in a header
// the charge is the estimate, the cost of a request without the field. [Compile] accepts such
// limits, as those of a candidate; a configuration file and an override do not.
func (r *Rule) NeverAdmits(limit Limit) string {
	l := limit.Limit
	if limit.Grace != nil { // a soft limit admits requests above it
		l = *limit.Grace
	}
	units, most := r.Cost.Units, l.Full()
	what, raise := fmt.Sprintf("each request costs %d units", units), "quota"
	switch {
	case r.Cost.Func != nil, units <= most, l.Validate() != nil:
		return ""
	case r.Cost.Of == RequestHeader:
		what = fmt.Sprintf("a request without %s is charged %d units", r.Cost.Header, units)
	case r.Cost.Of == ResponseHeader:
		what = fmt.Sprintf("each request is charged %d units until its response is known", units)
	}
	if l.Filled().Burst > 0 {
		raise = "burst"
	}
	return fmt.Sprintf("%v never admits a request: %s, and never more than %d fit; use a %s of %d or more, or a cost of at most %d",
		l, what, most, raise, units, most)
}

// Response is the outcome of a request that passed.
type Response struct {
	Status  int
	Header  func(name string) []string // by canonical name; nil: none
	Read    int64                      // bytes read of the request's body; below 0: not known, the estimate stands
	Written int64                      // bytes of the response's body
	// Took is how long the request ran. Zero means not known: the estimate stands, but a
	// Call of package evaluate measures the time itself.
	Took time.Duration
	// Unseen says that the request may have been executed, but its response was not seen:
	// the client left, or the upstream failed or took too long. It then counts under every
	// When: otherwise clients could hang up to avoid being counted.
	Unseen bool
	// Running says that the request may still run, and that its end will not be seen: its
	// slots in flight stay until they expire. Otherwise clients could leave to run more at
	// once.
	Running bool
}
