// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "errors"

// Lookup returns a claim of a verified token, "" if it has no such claim.
type Lookup = func(name string) (string, error)

// Token is the token of a request, for [Attributes] that are asked for its claims:
// it is verified once, and only if a rule needs one. The zero Token is ready. It
// belongs to one goroutine at a time.
type Token struct {
	claims   Lookup
	err      error // why there are no claims; nil also if there is no token
	verified bool
}

// Claim returns a claim. It calls verify at the first, which returns what looks
// claims up, or nil if the request has no token. An error of verify means that the
// token cannot be used. That of the lookup means the same if it is a [*TokenError],
// and otherwise that the claim cannot be used. What is neither a TokenError nor a
// [*ClaimError] is not for the client, but for report. If required, a request
// without a token is refused.
func (t *Token) Claim(name string, verify func() (Lookup, error), required bool, report func(error)) (string, error) {
	if !t.verified {
		t.verify(verify, report)
		if t.verified = true; t.claims == nil && t.err == nil && required {
			t.err = ErrNoToken
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
	if claim, ok := errors.AsType[*ClaimError](err); ok {
		return "", claim
	}
	report(err)
	return "", &ClaimError{Problem: "cannot be read", Err: err}
}

func (t *Token) verify(verify func() (Lookup, error), report func(error)) {
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
