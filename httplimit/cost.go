// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice"
)

// Cost is what a request costs, in units. The zero value is 1.
//
// A cost that is known only afterwards is taken as an estimate first and put
// right once the handler has returned: too little is charged, into the limit's
// debt if need be; too much is refunded. An estimate of at least 1 keeps out
// the request that comes after the quota is spent. Requests that run at the
// same time are let in by their estimates, so what they cost above them may
// exceed the quota; a limit with Debt makes up for that later.
type Cost struct {
	// Before is the cost, or an estimate, of a request that has not run. Nil
	// means 1. A [*RequestError] refuses the request.
	Before func(*http.Request) (int64, error)
	// After, if not nil, is the actual cost. A negative one means that the cost
	// stays as it was taken.
	After func(*http.Request, Response) int64

	fault error
}

// Response is what a handler answered.
type Response struct {
	Status  int         // 200 if the handler set none
	Header  http.Header // as the handler left it; not to be changed
	Written int64       // bytes of the body; none of a hijacked connection
	Read    int64       // bytes that the handler read of the request's body
}

// Units returns a Cost of n for every request.
func Units(n int64) Cost {
	if n < 0 || n > sluice.MaxQuota {
		return Cost{fault: fmt.Errorf("httplimit: Units: %d must be 0 to %d", n, int64(sluice.MaxQuota))}
	}
	return Cost{Before: func(*http.Request) (int64, error) { return n, nil }}
}

// ResponseBytes returns a Cost of as many units as the response's body has
// bytes, as the handler writes it. A request is let in for 1.
func ResponseBytes() Cost {
	return Cost{After: func(_ *http.Request, resp Response) int64 { return resp.Written }}
}

// RequestBytes returns a Cost of as many units as the request's body has
// bytes: its Content-Length, or, where there is none, what was read of it. Such
// a request is let in for 1.
func RequestBytes() Cost {
	return Cost{
		Before: func(r *http.Request) (int64, error) {
			if r.ContentLength < 0 {
				return 1, nil
			}
			if r.ContentLength > sluice.MaxQuota {
				return 0, Invalid("Content-Length", fmt.Sprintf("is above %d", int64(sluice.MaxQuota)))
			}
			return r.ContentLength, nil
		},
		After: func(r *http.Request, resp Response) int64 {
			if r.ContentLength < 0 {
				return resp.Read
			}
			return -1
		},
	}
}

// RequestHeader returns a Cost that the request names in a header field: a
// whole number from least to most, and least if the field is not there. It is
// for fields that a trusted peer sets; any other client would name the least.
func RequestHeader(name string, least, most int64) Cost {
	switch {
	case !validFieldName(name):
		return Cost{fault: fmt.Errorf("httplimit: RequestHeader: %q is not a header field's name", name)}
	case least < 0 || most < least || most > sluice.MaxQuota:
		return Cost{fault: fmt.Errorf("httplimit: RequestHeader %q: the cost's range %d to %d must lie in 0 to %d", name, least, most, int64(sluice.MaxQuota))}
	}
	name = http.CanonicalHeaderKey(name)
	part := "header " + name
	return Cost{Before: func(r *http.Request) (int64, error) {
		switch values := r.Header[name]; len(values) {
		case 0:
			return least, nil
		case 1:
			n, ok := parseCost(values[0])
			if !ok || n < least || n > most {
				return 0, Invalid(part, fmt.Sprintf("must be a whole number from %d to %d", least, most))
			}
			return n, nil
		}
		return 0, Invalid(part, "is sent more than once")
	}}
}

// ResponseHeader returns a Cost that the response names in a header field: a
// whole number. A request is let in for estimate, which stays if the field is
// not there or is not a number from 0 to sluice.MaxQuota.
func ResponseHeader(name string, estimate int64) Cost {
	switch {
	case !validFieldName(name):
		return Cost{fault: fmt.Errorf("httplimit: ResponseHeader: %q is not a header field's name", name)}
	case estimate < 0 || estimate > sluice.MaxQuota:
		return Cost{fault: fmt.Errorf("httplimit: ResponseHeader %q: the estimate %d must be 0 to %d", name, estimate, int64(sluice.MaxQuota))}
	}
	name = http.CanonicalHeaderKey(name)
	return Cost{
		Before: func(*http.Request) (int64, error) { return estimate, nil },
		After: func(_ *http.Request, resp Response) int64 {
			if n, ok := parseCost(resp.Header.Get(name)); ok {
				return n
			}
			return -1
		},
	}
}

func parseCost(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return int64(n), err == nil && n <= sluice.MaxQuota
}

// validFieldName reports whether s is a token as RFC 9110 has it.
func validFieldName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == '!', c == '#', c == '$', c == '%', c == '&', c == '\'',
			c == '*', c == '+', c == '^', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return s != ""
}
