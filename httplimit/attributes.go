// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/policy"
)

// attributes are those of a request. How many bytes one sends that switches
// protocol is not known before, so it is charged as a body of unknown length.
type attributes struct {
	policy.HTTP
	switches bool
}

func (a *attributes) Length() int64 {
	if a.switches {
		return -1
	}
	return a.HTTP.Length()
}

// maySwitch reports whether a request asks for another protocol. One that has a
// body of known length beside, as clients send that would rather have HTTP/2, is
// charged for that at once.
func maySwitch(r *http.Request) bool {
	return r.ProtoMajor == 1 && len(r.Header["Upgrade"]) > 0 && (r.Method == http.MethodGet || r.ContentLength == 0)
}

// lookUp returns a claim of the request's token, which is verified at the first.
func (q *Request) lookUp(name string) (string, error) {
	if !q.verified {
		q.verify()
		q.verified = true
		if q.claims == nil && q.token == nil && q.mw.opts.TokenRequired {
			q.token = policy.ErrNoToken
		}
	}
	if q.claims == nil {
		return "", q.token
	}
	value, err := q.claims(name)
	if err == nil {
		return value, nil
	}
	if token, ok := errors.AsType[*policy.TokenError](err); ok {
		return "", token
	}
	if claim, ok := errors.AsType[*policy.ClaimError](err); ok {
		return "", claim
	}
	q.mw.report(q.r, err)
	return "", &policy.ClaimError{Problem: "cannot be read", Err: err}
}

// verify asks for the claims of the request's token. What is no TokenError is not
// for the client.
func (q *Request) verify() {
	claims, err := q.mw.opts.Claims(q.r)
	if err == nil {
		q.claims, q.token = claims, nil
		return
	}
	token, ok := errors.AsType[*policy.TokenError](err)
	if !ok {
		q.mw.report(q.r, err)
		token = &policy.TokenError{Problem: "the token cannot be verified", Err: err}
	}
	q.claims, q.token = nil, token
}
