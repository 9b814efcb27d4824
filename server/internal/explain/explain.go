// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package explain explains the decision of a request that was not sent.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

const mostFields = 256 // header fields, claims, names of the certificate and entries

// Request is a request whose decision is
// explained.
type Request struct {
	Method string `json:"method,omitempty"` // empty: GET
	// URL is a path with its query, or a whole URL if the host matters.
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers,omitempty"`
	Client  string              `json:"client,omitempty"` // address; empty: not known
	// Claims are the claims of a verified token. Nil: a token among Headers is verified.
	Claims map[string]string `json:"claims,omitempty"`
	// Certificate are the names in the client's verified certificate: cn, uri, dns,
	// subject.
	Certificate map[string]string `json:"certificate,omitempty"`
	// Descriptor are the entries of a descriptor, of the domain that is the URL's host.
	Descriptor map[string]string `json:"descriptor,omitempty"`
	BodyBytes  *int64            `json:"body_bytes,omitempty"` // nil: not known
	// Listener is the name or the address of the listener that it comes to. Empty: all rules
	// apply, to the clients of the file; to a descriptor those of the first listener for them.
	Listener string `json:"listener,omitempty"`
}

// At returns the rules that apply where a request comes to, and whether a client may connect
// there at all.
type At = func(*Request) (rules *policy.Policy, admits func(netip.Addr) bool, err error)

// Explainer explains the decisions of requests. It charges nothing.
type Explainer struct {
	At    At
	Store sluice.Store // a sluice.ExplainStore, of units and slots
	// Overrides are the active ones besides those of the rules; nil: there are none.
	Overrides *evaluate.Overrides
	Now       func() time.Time // decides which overrides are active; nil: time.Now
	// Claims verifies the token of a request, and reports whether the request must have
	// one; nil: requests have none.
	Claims func(*http.Request) (claims func(string) (string, error), required bool, err error)
}

// explainedRequest has the attributes of a request to explain, which was not sent.
type explainedRequest struct {
	wire.Attributes
	certificate, descriptor map[string]string
}

func (r *explainedRequest) Certificate(name string) (string, error) { return r.certificate[name], nil }

func (r *explainedRequest) Descriptor(key string) ([]string, int) {
	if value, ok := r.descriptor[key]; ok {
		return []string{value}, len(r.descriptor)
	}
	return nil, len(r.descriptor)
}

// RequestError is a fault of a [Request].
type RequestError struct{ error }

// Explain explains a request. The error is that of the store, or a fault of q.
func (x *Explainer) Explain(ctx context.Context, q *Request) (*evaluate.Explanation, error) {
	r, client, err := q.request(ctx)
	if err != nil {
		return nil, RequestError{err}
	}
	rules, admits, err := x.At(q)
	if err != nil {
		return nil, RequestError{err}
	}
	admitted := admits(client)
	if fault := wire.Fault(r); !admitted || fault != "" {
		e := &evaluate.Explanation{Verdict: evaluate.Refused.String(), Why: fault, Rules: []evaluate.RuleExplanation{}}
		if !admitted {
			e.Why = evaluate.ErrNotAdmitted.Error()
		}
		return e, nil
	}
	if r.URL.Path == wire.OwnLimits {
		return &evaluate.Explanation{Verdict: evaluate.Allowed.String(), Why: "it asks for its client's own limits, and is answered here", Rules: []evaluate.RuleExplanation{}}, nil
	}
	a := &explainedRequest{certificate: q.Certificate, descriptor: q.Descriptor}
	a.Reset(r, client, x.claims(r, q.Claims))
	evaluator, err := evaluate.New(evaluate.Options{Name: "explain", Policy: rules, Store: x.Store, Overrides: x.Overrides, Now: x.Now, CallerWaits: true})
	if err != nil {
		return nil, err
	}
	return evaluator.Explain(ctx, a)
}

// claims returns the function that looks up the request's claims.
func (x *Explainer) claims(r *http.Request, given map[string]string) func(string) (string, error) {
	switch {
	case given != nil:
		return func(name string) (string, error) { return given[name], nil }
	case x.Claims == nil:
		return nil
	}
	var t policy.Token
	claims, required, err := x.Claims(r)
	verified := func() (func(string) (string, error), error) { return claims, err }
	return func(name string) (string, error) { return t.Claim(name, verified, required, func(error) {}) }
}

// request returns q as a server would receive it.
func (q *Request) request(ctx context.Context) (r *http.Request, client netip.Addr, err error) {
	if n := len(q.Headers) + len(q.Claims) + len(q.Certificate) + len(q.Descriptor); n > mostFields {
		return nil, client, fmt.Errorf("%d header fields, claims, names and entries; at most %d are accepted", n, mostFields)
	}
	if q.Client != "" {
		if client, err = netip.ParseAddr(q.Client); err != nil {
			return nil, client, fmt.Errorf("client %q is not an address; use one such as 192.0.2.7", q.Client)
		}
	}
	at, err := url.ParseRequestURI(q.URL)
	switch {
	case err != nil || strings.Contains(q.URL, "#"):
		return nil, client, fmt.Errorf("url %q is not one; use a path such as /orders?q=1, or https://api.example/orders", q.URL)
	case at.Host != "" && at.Scheme != "http" && at.Scheme != "https":
		return nil, client, fmt.Errorf("url %q is not of http; use https://api.example/orders", q.URL)
	}
	method := cmp.Or(q.Method, http.MethodGet)
	if !wire.Token(method) {
		return nil, client, fmt.Errorf("method %q is not one word; use one such as POST", method)
	}
	r = (&http.Request{Method: method, URL: at, Host: at.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), ContentLength: -1}).WithContext(ctx)
	given := make(map[string]bool)
	for name, values := range q.Headers {
		own := http.CanonicalHeaderKey(name)
		switch {
		case !wire.Token(name):
			return nil, client, fmt.Errorf("%q is not a header field's name", name)
		case given[own]:
			return nil, client, fmt.Errorf("the header field %s is named twice, as the case of letters does not matter; give it all of its values once", own)
		case strings.EqualFold(name, "Host") && len(values) == 1:
			r.Host = values[0]
		default:
			r.Header[own] = values
		}
		given[own] = true
	}
	if q.BodyBytes != nil {
		if r.ContentLength = *q.BodyBytes; r.ContentLength < 0 {
			return nil, client, fmt.Errorf("body_bytes is %d; leave it out where it is not known", r.ContentLength)
		}
	}
	return wire.EndToEnd(r), client, nil
}
