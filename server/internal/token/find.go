// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

var (
	errTwice = &policy.TokenError{Problem: "the token is sent more than once"}
	errEmpty = &policy.TokenError{Problem: "the token is empty"}
	errOther = &policy.TokenError{Problem: "the token does not follow the scheme Bearer and a space"}
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

// mostDigits is the longest number accepted as a key.
const mostDigits = 64

var (
	errList   = &policy.PartError{Problem: "is a list in the token; a key is a text or a number"}
	errObject = &policy.PartError{Problem: "is an object in the token; a key is a text or a number"}
	errNumber = &policy.PartError{Problem: "is a number of more than 64 digits in the token"}
	errText   = &policy.PartError{Problem: "cannot be read in the token"}
)

// text returns the text of a claim, or "" without one: a string itself, true or false for a
// boolean, and for a number its shortest decimal form, so that no number has two budgets.
func text(claim json.RawMessage) (string, error) {
	if len(claim) == 0 {
		return "", nil
	}
	switch claim[0] {
	case '"':
		var s string
		if json.Unmarshal(claim, &s) != nil {
			return "", errText
		}
		return s, nil
	case '[':
		return "", errList
	case '{':
		return "", errObject
	case 'n': // null
		return "", nil
	case 't', 'f':
		return string(claim), nil
	default:
		return number(string(claim))
	}
}

// number returns a JSON number in decimal digits, without an exponent and insignificant zeros:
// 1 for 1.0, 1e0 and 10e-1. Nothing is rounded.
func number(s string) (string, error) {
	s, negative := strings.CutPrefix(s, "-")
	s, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(s, ".")
	digits, point := whole+fraction, len(whole)
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return "", errNumber
		}
		point += int(e)
	}
	significant := strings.TrimLeft(digits, "0")
	point -= len(digits) - len(significant)
	digits = strings.TrimRight(significant, "0")
	switch {
	case digits == "":
		return "0", nil
	case max(point, len(digits))-min(point, 0) > mostDigits:
		return "", errNumber
	case point <= 0:
		s = "0." + strings.Repeat("0", -point) + digits
	case point >= len(digits):
		s = digits + strings.Repeat("0", point-len(digits))
	default:
		s = digits[:point] + "." + digits[point:]
	}
	if negative {
		s = "-" + s
	}
	return s, nil
}
