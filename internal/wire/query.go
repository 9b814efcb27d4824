// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"strings"
)

// QueryProblem is the problem of a parameter for which [AppendQuery] is not ok. It holds no
// value that the client sent.
const QueryProblem = "is sent in a way that servers do not agree on; send it under this name alone, and escape a percent sign as %25, a semicolon as %3B and a number sign as %23"

// AppendQuery appends the values of a parameter of a raw query. ok is false if servers do not
// agree on them: if a value has a percent sign that begins no escape, which some servers keep
// and some drop with the pair; or a semicolon, which some read as an ampersand; if the
// parameter follows a number sign, at which some end a query; or if some confuse another
// parameter's name with this one. The other parameters are not checked.
func AppendQuery(values []string, raw, name string) (all []string, ok bool) {
	ok = true
	ended := false // for some servers, at a number sign
	for pair := range strings.SplitSeq(raw, "&") {
		first, _, sign := strings.Cut(pair, "#")
		ended = ended || sign
		if !ended && strings.IndexByte(pair, ';') < 0 && escaped(pair) {
			key, value, _ := strings.Cut(pair, "=")
			switch key = Unescape(key); {
			case pair == "":
			case key == name:
				values = append(values, Unescape(value))
			case likeParameter(key, name):
				ok = false
			}
			continue
		}
		if mayName(pair, name) || sign && mayName(first, name) {
			ok = false
		}
	}
	return values, ok
}

// mayName reports whether some servers read the name of the parameter in a pair.
func mayName(pair, name string) bool {
	is := func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		key = Unescape(key)
		return pair != "" && (key == name || likeParameter(key, name))
	}
	if is(pair) {
		return true
	}
	for part := range strings.SplitSeq(pair, ";") {
		if is(part) {
			return true
		}
	}
	return false
}

// likeParameter reports whether some server confuses one parameter's name with another: some
// servers drop blanks before a name, end it at a NUL, ignore its case, or read brackets after
// it as a list of that name.
func likeParameter(spelled, name string) bool {
	if len(spelled) < len(name) || !strings.EqualFold(spelled, name) && !strings.ContainsAny(spelled, " \x00[") {
		return false
	}
	spelled, _, _ = strings.Cut(spelled, "\x00")
	spelled = strings.TrimLeft(spelled, " ")
	if !strings.HasSuffix(name, "]") {
		spelled, _, _ = strings.Cut(spelled, "[")
	}
	return strings.EqualFold(spelled, name)
}

// escaped reports whether every percent sign begins an escape.
func escaped(s string) bool {
	for {
		_, rest, found := strings.Cut(s, "%")
		if !found {
			return true
		}
		if len(rest) < 2 {
			return false
		}
		if _, err := strconv.ParseUint(rest[:2], 16, 8); err != nil {
			return false
		}
		s = rest[2:]
	}
}
