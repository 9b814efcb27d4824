// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package placeholder reads the texts of answers, in which words in braces stand for values:
// package policy checks them, and package httplimit fills in the values.
package placeholder

import (
	"fmt"
	"slices"
	"strings"
)

// Word is a placeholder.
type Word uint8

// The placeholders.
const (
	Text Word = iota // none: plain text
	Limit
	Quota
	Window
	Remaining
	Used
	Reset
	ResetUnix
	ResetDate
	ResetTime
	RetryAfter
	RetryAfterMS
	Rule
	Name
	Status
	Detail
	words
)

var names = [words]string{
	Limit: "limit", Quota: "quota", Window: "window", Remaining: "remaining", Used: "used",
	Reset: "reset", ResetUnix: "reset_unix", ResetDate: "reset_date", ResetTime: "reset_time",
	RetryAfter: "retry_after", RetryAfterMS: "retry_after_ms", Rule: "rule", Name: "name",
	Status: "status", Detail: "detail",
}

// String returns the word between the braces.
func (w Word) String() string { return names[w] }

// Piece is a text, or a placeholder with the name of its limit.
type Piece struct {
	Word  Word
	Text  string
	Limit string // empty: the binding one
}

// Parse reads a text. A word in braces must be a placeholder. Any other brace is plain text.
func Parse(text string) (pieces []Piece, err error) {
	rest := text
	for from := 0; ; {
		i := strings.IndexByte(rest[from:], '{')
		if i < 0 {
			break
		}
		i += from
		n := 1
		for i+n < len(rest) && inPlaceholder(rest[i+n]) {
			n++
		}
		if n == 1 || i+n == len(rest) || rest[i+n] != '}' {
			from = i + 1
			continue
		}
		s, err := read(rest[i+1 : i+n])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			pieces = append(pieces, Piece{Text: rest[:i]})
		}
		pieces = append(pieces, s)
		rest, from = rest[i+n+1:], 0
	}
	if rest != "" {
		pieces = append(pieces, Piece{Text: rest})
	}
	return pieces, nil
}

func inPlaceholder(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// read reads the word between braces, with the name of a limit before a dot.
func read(text string) (Piece, error) {
	s, name := Piece{}, text
	if dot := strings.LastIndexByte(text, '.'); dot >= 0 {
		s.Limit, name = text[:dot], text[dot+1:]
	}
	if i := slices.Index(names[1:], name); i >= 0 {
		s.Word = Word(i + 1)
		return s, nil
	}
	return s, fmt.Errorf("{%s} is not a placeholder; use one of {%s}", text, strings.Join(names[1:], "}, {"))
}
