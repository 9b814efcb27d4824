// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"regexp"
	"strings"
	"unicode"
)

// longestCause is how much is reported of why a store is unavailable, in bytes.
const longestCause = 300

// namesUser is how a server names a user without a right.
var namesUser = regexp.MustCompile(`\b[Uu]ser \S+ has\b`)

// cause says why the store is unavailable, as a server or the network put it last;
// empty if it is not.
func (s *sharedStore) cause() string { return causeText(s.lastFailure()) }

func (s *sharedStore) lastFailure() error {
	if err := s.redis.Err(); err != nil {
		return err
	}
	return s.store.Cause()
}

// causeText returns what an error says as one line that is not long and does not
// name the user.
func causeText(err error) string {
	if err == nil {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, namesUser.ReplaceAllLiteralString(err.Error(), "the user has"))
	if len(text) > longestCause {
		text = strings.ToValidUTF8(text[:longestCause], "") + "…"
	}
	return text
}
