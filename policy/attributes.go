// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// Attributes are what a policy may know of a request. A front implements it
// over its native request, so that nothing is copied; what it cannot know is
// empty. Methods may be called any number of times, by one goroutine at a time.
type Attributes interface {
	// Method is the request's method in capitals: "GET".
	Method() string
	// Host is what the request is for, lower case and without a port.
	Host() string
	// Path is the escaped path, as sent: "/users/a%2Fb". The policy cleans it.
	// What does not begin with a slash matches no pattern.
	Path() string
	// Header returns the values of a header field, by its canonical name.
	Header(name string) []string
	// Query returns the values of a query parameter. With an error, which says
	// that servers do not agree on them, a rule that asks for the parameter
	// matches, and one that has it in its key refuses the request. As with Cookie
	// and Claim, the text of an error goes behind the part's name in the answer,
	// and never holds what the client sent.
	Query(name string) ([]string, error)
	// Cookie returns the values of a cookie. With an error, which says that
	// servers do not agree on them, a rule that has it in its key refuses the
	// request.
	Cookie(name string) ([]string, error)
	// Client is the client's address, found through trusted proxies; the zero
	// Addr if there is none.
	Client() netip.Addr
	// Claim returns a claim of the request's token, which has been verified: ""
	// if there is no token, or no such claim. With an error the request is
	// refused, whatever [Missing] says, by a rule that has the claim in its key,
	// and with a [*TokenError] by one that has it in its tiers, too.
	// A [*ClaimError] says that the token is good, and the claim cannot be used.
	Claim(name string) (string, error)
	// Length is the size of the request's body in bytes, -1 if not known.
	Length() int64
}

// TokenError is what [Attributes.Claim] returns of a request whose token cannot be
// used, or that has none and must have one. A rule is not decided then as if it
// had none, which may be under a looser limit.
type TokenError struct {
	// Problem is for the client and never holds what it sent: "the token has
	// expired".
	Problem string
	Missing bool  // there is no token
	Err     error // more of it, for a log; nil if there is nothing to add
}

// ErrNoToken is what Claim returns of a request that must have a token and has
// none.
var ErrNoToken = &TokenError{Problem: "a token is needed, and none was sent", Missing: true}

// Error returns the problem.
func (e *TokenError) Error() string { return e.Problem }

// Unwrap returns Err.
func (e *TokenError) Unwrap() error { return e.Err }

// ClaimError is what [Attributes.Claim] returns of a claim that the token has and
// that cannot be a part of a key, such as a list.
type ClaimError struct {
	// Problem is for the client and never holds what it sent: "is a list".
	Problem string
	Err     error // more of it, for a log; nil if there is nothing to add
}

// Error returns the problem.
func (e *ClaimError) Error() string { return e.Problem }

// Unwrap returns Err.
func (e *ClaimError) Unwrap() error { return e.Err }

// StaticAttributes is [Attributes] as data: for tests, for cases, and for protocols that
// send no HTTP request. It may be read concurrently. Its methods fail only by Token.
type StaticAttributes struct {
	RequestMethod string
	RequestHost   string
	RequestPath   string
	Headers       map[string][]string // by canonical name
	Queries       map[string][]string
	Cookies       map[string][]string
	Address       netip.Addr
	Claims        map[string]string
	Certificates  map[string]string // what Certificate returns, by name
	Token         *TokenError       // what Claim returns, if not nil
	Bytes         int64
}

// Method returns RequestMethod.
func (p *StaticAttributes) Method() string { return p.RequestMethod }

// Host returns RequestHost.
func (p *StaticAttributes) Host() string { return p.RequestHost }

// Path returns RequestPath.
func (p *StaticAttributes) Path() string { return p.RequestPath }

// Header returns what Headers has under name.
func (p *StaticAttributes) Header(name string) []string { return p.Headers[name] }

// Query returns what Queries has under name.
func (p *StaticAttributes) Query(name string) ([]string, error) { return p.Queries[name], nil }

// Cookie returns what Cookies has under name.
func (p *StaticAttributes) Cookie(name string) ([]string, error) { return p.Cookies[name], nil }

// Client returns Address.
func (p *StaticAttributes) Client() netip.Addr { return p.Address }

// Claim returns what Claims has under name.
func (p *StaticAttributes) Claim(name string) (string, error) {
	if p.Token != nil {
		return "", p.Token
	}
	return p.Claims[name], nil
}

// Certificate returns what Certificates has under name.
func (p *StaticAttributes) Certificate(name string) (string, error) { return p.Certificates[name], nil }

// Length returns Bytes.
func (p *StaticAttributes) Length() int64 { return p.Bytes }
