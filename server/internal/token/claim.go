// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/policy"
)

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
