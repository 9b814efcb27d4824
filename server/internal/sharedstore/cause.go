// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"regexp"
	"strings"
	"unicode"
)

// longestCause is the longest text of a store's failure, in bytes.
const longestCause = 300

// namesUser matches the name of a user in a server's refusal.
var namesUser = regexp.MustCompile(`\b[Uu]ser \S+ has\b`)

// cause returns the last failure of the store, as the server or the network put it, or ""
// while the store is available.
func (s *Store) cause() string { return causeText(s.lastFailure()) }

func (s *Store) lastFailure() error {
	if err := s.redis.Err(); err != nil {
		return err
	}
	return s.store.Err()
}

// causeText returns the text of err in one short line, without the name of the user.
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
