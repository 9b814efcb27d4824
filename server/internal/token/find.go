// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

var (
	errTwice = &policy.TokenError{Problem: "the token is sent more than once"}
	errEmpty = &policy.TokenError{Problem: "the token is empty"}
	errOther = &policy.TokenError{Problem: "the token is not behind the scheme Bearer, and a blank"}
)

// find returns the request's token as sent, or "" without one. It ignores other places than
// the configured one. A request from which an application might take another token is an
// error.
func (v *Verifier) find(r *http.Request) (string, *policy.TokenError) {
	if v.o.Cookie != "" {
		values, problem := wire.Cookies(r, v.o.Cookie)
		if problem != "" {
			return "", &policy.TokenError{Problem: "the token's cookie " + problem}
		}
		return only(values)
	}
	if v.o.Header != "" {
		value, fault := only(r.Header.Values(v.o.Header))
		if token, ok := bearer(value); ok {
			return notEmpty(token)
		}
		return value, fault
	}
	return authorization(r.Header["Authorization"])
}

// only returns the one value sent, or "" without one.
func only(values []string) (string, *policy.TokenError) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", errTwice
}

// authorization returns the token in the field Authorization. Another scheme, such as Basic,
// has none, but it is an error if an application might read one there.
func authorization(values []string) (string, *policy.TokenError) {
	tokens := 0
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if _, ok := bearer(part); ok {
				tokens++
			}
		}
	}
	switch {
	case tokens == 0 && slices.ContainsFunc(values, holdsToken):
		return "", errOther
	case tokens == 0:
		return "", nil
	case tokens > 1 || len(values) > 1:
		return "", errTwice
	}
	token, ok := bearer(values[0])
	if !ok {
		return "", errTwice // credentials of another scheme precede it
	}
	return notEmpty(token)
}

// bearer returns the text after the scheme Bearer, if value has that scheme. It accepts any
// white space after it, as some applications do.
func bearer(value string) (token string, ok bool) {
	value = strings.TrimSpace(value)
	const scheme = "bearer"
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	token = strings.TrimLeft(value[len(scheme):], " \t")
	return token, token == "" || len(token) < len(value)-len(scheme)
}

// holdsToken reports whether a value contains text like a JWT, which an application may find
// after any text: three or more parts of base64url between dots, the first a JSON object.
func holdsToken(value string) bool {
	between := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	}
	for word := range strings.FieldsFuncSeq(value, between) {
		if _, rest, ok := strings.Cut(word, "eyJ"); ok && strings.Count(rest, ".") >= 2 {
			return true
		}
	}
	return false
}

func notEmpty(token string) (string, *policy.TokenError) {
	if token == "" {
		return "", errEmpty
	}
	return token, nil
}
