// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

// Attributes are the policy.Attributes of an HTTP request. They may be reused for another
// request by [Attributes.Reset].
type Attributes struct {
	request *http.Request
	client  netip.Addr
	claims  func(name string) (string, error)
	host    string    // set by Host
	query   [1]string // memory for Query: usually there is one value
}

// Reset makes h the attributes of r. The front finds the client's address, as it knows the
// trusted proxies. Claim calls claims; nil means a request without a token.
func (h *Attributes) Reset(r *http.Request, client netip.Addr, claims func(name string) (string, error)) {
	h.request = r
	if h.client != client { // writing a pointer costs more, while garbage is collected
		h.client = client
	}
	if claims != nil || h.claims != nil {
		h.claims = claims
	}
	if h.host != "" {
		h.host = ""
	}
}

// Request returns the request itself, for functions of key parts.
func (h *Attributes) Request() *http.Request { return h.request }

// Method returns the request's method in capitals: many applications read "post" as POST, so
// it must not evade a rule.
func (h *Attributes) Method() string { return strings.ToUpper(h.request.Method) }

// Host returns the requested host in lower case and without its port.
func (h *Attributes) Host() string {
	if h.host == "" {
		h.host = Host(h.request.Host)
	}
	return h.host
}

// Path returns the escaped path. A target without one, as in "GET http://host" and "CONNECT
// host:443", is passed on as "/", and "*" as "/*", so these are evaluated. A front must refuse
// a target that is neither a path nor a server, such as "GET x:y", whose URL is Opaque.
func (h *Attributes) Path() string {
	p := h.request.URL.EscapedPath()
	if p == "" || p[0] != '/' {
		return "/" + p
	}
	return p
}

// Header returns the values of a header field; of "Host", the request's host.
func (h *Attributes) Header(name string) []string {
	if name == "Host" {
		return []string{h.Host()}
	}
	return h.request.Header[name]
}

// Query returns the values of a query parameter. It fails if servers do not agree on the
// values, as for q in "q=100%", "a;q=1", "a#&q=1" and "Q=1". The values are valid until the
// next call.
func (h *Attributes) Query(name string) ([]string, error) {
	values, ok := AppendQuery(h.query[:0], h.request.URL.RawQuery, name)
	if !ok {
		return nil, errQuery
	}
	return values, nil
}

var errQuery = errors.New(QueryProblem)

// Cookie returns the values of a cookie, unescaped, without blanks and quotes around them. It
// fails if servers read the cookie in different ways, as the application's is not known.
func (h *Attributes) Cookie(name string) ([]string, error) {
	values, problem := Cookies(h.request, name)
	if problem != "" {
		return nil, errors.New(problem)
	}
	return values, nil
}

// Client returns the client's address.
func (h *Attributes) Client() netip.Addr { return h.client }

// Claim returns a claim of the request's verified token.
func (h *Attributes) Claim(name string) (string, error) {
	if h.claims == nil {
		return "", nil
	}
	return h.claims(name)
}

// Certificate returns a name in the client's certificate, "" if the server has verified none.
func (h *Attributes) Certificate(name string) (string, error) {
	return VerifiedName(h.request.TLS, name)
}

// Length returns the request's Content-Length, -1 if it has none.
func (h *Attributes) Length() int64 { return h.request.ContentLength }
