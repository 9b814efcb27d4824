// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

// Attributes are what a policy may know of an HTTP request. They may be reused for
// another one through [Attributes.Reset].
type Attributes struct {
	request *http.Request
	client  netip.Addr
	claims  func(name string) (string, error)
	host    string    // once it was asked for
	query   [1]string // memory of Query: mostly there is one value
}

// Reset makes h the attributes of r. The client's address comes from the front,
// which knows which proxies to trust. Claims is what Claim calls; nil is a request
// without a token.
func (h *Attributes) Reset(r *http.Request, client netip.Addr, claims func(name string) (string, error)) {
	h.request, h.client, h.claims, h.host = r, client, claims, ""
}

// Request returns the request itself, for parts that functions say.
func (h *Attributes) Request() *http.Request { return h.request }

// Method returns the request's method in capitals: many an application reads
// "post" as POST, so it must not get around a rule.
func (h *Attributes) Method() string { return strings.ToUpper(h.request.Method) }

// Host returns the requested host, lower case and without its port.
func (h *Attributes) Host() string {
	if h.host == "" {
		h.host = Host(h.request.Host)
	}
	return h.host
}

// Path returns the escaped path. A target that has none, as that of "GET
// http://host" and "CONNECT host:443", is passed on as "/", and "*" as "/*": so
// they are evaluated as these. A front must refuse one that is neither path nor
// server, such as "GET x:y", whose URL is Opaque.
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

// Query returns the values of a query parameter. It is an error if servers do not
// agree on them, as of q in "q=100%", "a;q=1", "a#&q=1" and "Q=1". They are valid
// until it is called again.
func (h *Attributes) Query(name string) ([]string, error) {
	values, ok := AppendQuery(h.query[:0], h.request.URL.RawQuery, name)
	if !ok {
		return nil, errQuery
	}
	return values, nil
}

var errQuery = errors.New(QueryProblem)

// Cookie returns the values of a cookie, unescaped, without blanks and quotes
// around them. One that servers read in different ways is an error: what an
// application reads into it is not known.
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

// Certificate returns a name in the certificate of the request's client, if the
// server has verified one.
func (h *Attributes) Certificate(name string) (string, error) {
	return VerifiedName(h.request.TLS, name)
}

// Length returns the request's Content-Length, -1 if it has none.
func (h *Attributes) Length() int64 { return h.request.ContentLength }
