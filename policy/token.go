// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "errors"

// Token is the token of a request, for [Attributes] whose claims are read: it is verified
// once, and only if a rule reads a claim. The zero Token is ready to use. It belongs to one
// goroutine at a time.
type Token struct {
	claims   func(name string) (string, error)
	err      error // why there are no claims; also nil if there is no token
	verified bool
}

// Claim returns a claim. Its first call calls verify, which returns a function that looks up
// claims, or nil if the request has no token. An error of verify means that the token is not
// usable. An error of the function means the same if it is a [*TokenError]; otherwise the
// claim is not usable. Any error that is neither a TokenError nor a [*PartError] is hidden
// from the client and passed to report. If required, a request without a token is refused.
func (t *Token) Claim(name string, verify func() (func(name string) (string, error), error), required bool, report func(error)) (string, error) {
	if !t.verified {
		t.verify(verify, report)
		if t.verified = true; t.claims == nil && t.err == nil && required {
			t.err = &TokenError{Problem: "a token is needed, and none was sent", Missing: true}
		}
	}
	if t.claims == nil {
		return "", t.err
	}
	value, err := t.claims(name)
	if err == nil {
		return value, nil
	}
	if token, ok := errors.AsType[*TokenError](err); ok {
		return "", token
	}
	if claim, ok := errors.AsType[*PartError](err); ok {
		return "", claim
	}
	report(err)
	return "", &PartError{Problem: "cannot be read", Err: err}
}

func (t *Token) verify(verify func() (func(name string) (string, error), error), report func(error)) {
	claims, err := verify()
	if err == nil {
		t.claims = claims
		return
	}
	token, ok := errors.AsType[*TokenError](err)
	if !ok {
		report(err)
		token = &TokenError{Problem: "the token cannot be verified", Err: err}
	}
	t.err = token
}
