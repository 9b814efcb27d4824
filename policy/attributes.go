// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"

	"github.com/sluicegate/sluice/internal/wire"
)

// Attributes are the properties of a request that a policy can use. A front implements
// them over its native request, so that nothing is copied; properties that the protocol
// does not have are empty. Methods may be called any number of times, by one goroutine
// at a time.
type Attributes interface {
	// Method is the request's method in capitals: "GET".
	Method() string
	// Host is the requested host, in lower case and without a port.
	Host() string
	// Path is the escaped path, as sent: "/users/a%2Fb". The policy cleans it.
	// A path that does not begin with a slash matches no pattern.
	Path() string
	// Header returns the values of a header field, by its canonical name.
	Header(name string) []string
	// Query returns the values of a query parameter. An error means that servers do
	// not agree on the values: a rule that matches the parameter then matches, and a
	// rule that has it in its key refuses the request. As with Cookie and Claim, the
	// answer holds the part's name followed by the error's text, which must not hold
	// values that the client sent.
	Query(name string) ([]string, error)
	// Cookie returns the values of a cookie. An error means that servers do not agree
	// on the values: a rule that has the cookie in its key refuses the request.
	Cookie(name string) ([]string, error)
	// Client is the client's address, found through trusted proxies; the zero
	// Addr if there is none.
	Client() netip.Addr
	// Claim returns a claim of the request's verified token: "" if there is no token, or
	// no such claim. On an error, a rule with the claim in its key refuses the request,
	// whatever its [Missing] is; on a [*TokenError] so does a rule with the claim in its
	// tiers. A [*PartError] means that the token is valid, but the claim is not usable, such
	// as a list; its Problem is for the client and never holds a value that it sent.
	Claim(name string) (string, error)
	// Length is the size of the request's body in bytes, -1 if not known.
	Length() int64
}

// TokenError is the error of [Attributes.Claim] for a request whose token is not usable,
// or that lacks a required token. Such a request is refused rather than treated as one
// without a token, which may have a looser limit.
type TokenError struct {
	// Problem is for the client and never holds a value that it sent: "the token has
	// expired".
	Problem string
	Missing bool  // the request has no token
	Err     error // the cause, for a log; may be nil
}

// Error returns the problem.
func (e *TokenError) Error() string { return e.Problem }

// Unwrap returns Err.
func (e *TokenError) Unwrap() error { return e.Err }

// Request is a request as data: for tests, for cases, and for protocols without an HTTP
// request.
type Request struct {
	Method       string
	Host         string
	Path         string
	Headers      map[string][]string // by canonical name
	Queries      map[string][]string
	Cookies      map[string][]string
	Client       netip.Addr
	Claims       map[string]string
	Certificates map[string]string // the values of Certificate, by name
	Descriptor   map[string]string // the entries of a descriptor; nil: none
	Token        *TokenError       // the error of Claim, if not nil
	Length       int64             // bytes of the body; -1: not known
}

// Attributes returns the attributes of the request, which may be read concurrently. Their
// methods fail only by Token. They change with r.
func (r *Request) Attributes() Attributes { return static{r} }

// static are the attributes of a Request.
type static struct{ of *Request }

func (s static) Method() string                          { return s.of.Method }
func (s static) Host() string                            { return s.of.Host }
func (s static) Path() string                            { return s.of.Path }
func (s static) Header(name string) []string             { return s.of.Headers[name] }
func (s static) Query(name string) ([]string, error)     { return s.of.Queries[name], nil }
func (s static) Cookie(name string) ([]string, error)    { return s.of.Cookies[name], nil }
func (s static) Client() netip.Addr                      { return s.of.Client }
func (s static) Certificate(name string) (string, error) { return s.of.Certificates[name], nil }
func (s static) Length() int64                           { return s.of.Length }

func (s static) Descriptor(key string) ([]string, int) {
	if value, ok := s.of.Descriptor[key]; ok {
		return []string{value}, len(s.of.Descriptor)
	}
	return nil, len(s.of.Descriptor)
}

func (s static) Claim(name string) (string, error) {
	if s.of.Token != nil {
		return "", s.of.Token
	}
	return s.of.Claims[name], nil
}

// HostOf returns the host of a Host field, or of a URL's authority, in the form in which
// [Attributes] return it and rules compare it: in lower case, without a port and without
// trailing dots; an IPv6 address is in brackets and in its shortest form. Text after the first
// colon is ignored.
func HostOf(authority string) string { return wire.Host(authority) }
