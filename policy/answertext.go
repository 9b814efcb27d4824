// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// unknown is a time that is not known, or that never comes.
const unknown time.Duration = -1

// values are the values of placeholders.
type values struct {
	rule                   *Rule
	evaluated              *Verdict
	name                   string
	full, quota, remaining int64
	window, retry, reset   time.Duration // retry and reset may be unknown
	now                    time.Time
	status                 int    // of a body
	detail                 []byte // of a body with {detail}
}

// of sets v to the outcome of a limit.
func (v *values) of(t *sluice.Term, o sluice.Outcome) {
	v.full, v.quota, v.window, v.remaining = t.Full, t.Quota, t.Window, max(o.Remaining, 0)
	v.reset, v.retry = o.ResetAfter, o.RetryAfter
	if t.Block.For > 0 {
		v.full, v.quota, v.remaining = 0, 0, 0 // of units it has none
	}
	switch {
	case o.Allowed:
		v.retry = 0
	case o.TooLarge:
		v.retry = unknown
	}
}

// limited returns the values of the rule's limit with a name. ok is false if that limit
// did not apply.
func (v *values) limited(name string) (values, bool) {
	for o := range v.evaluated.Outcomes() {
		if o.Rule == v.rule && o.Limit.Name == name {
			of := values{rule: v.rule, evaluated: v.evaluated, name: o.Name(), now: v.now}
			of.of(o.Limit, o.Outcome)
			return of, true
		}
	}
	return values{}, false
}

// word is a placeholder.
type word uint8

const (
	wordText word = iota // no placeholder: plain text
	wordLimit
	wordQuota
	wordWindow
	wordRemaining
	wordUsed
	wordReset
	wordResetUnix
	wordResetDate
	wordResetTime
	wordRetryAfter
	wordRetryAfterMS
	wordRule
	wordName
	wordStatus
	wordDetail
	wordsEnd
)

var wordNames = [wordsEnd]string{
	wordLimit: "limit", wordQuota: "quota", wordWindow: "window", wordRemaining: "remaining", wordUsed: "used",
	wordReset: "reset", wordResetUnix: "reset_unix", wordResetDate: "reset_date", wordResetTime: "reset_time",
	wordRetryAfter: "retry_after", wordRetryAfterMS: "retry_after_ms", wordRule: "rule", wordName: "name",
	wordStatus: "status", wordDetail: "detail",
}

// piece is a text, or a placeholder with the name of its limit.
type piece struct {
	word  word
	text  string
	limit string // empty: the binding one
}

// template is a text with placeholders.
type template struct {
	pieces []piece
	escape func(b, s []byte) []byte // of a detail; nil: unchanged
}

// parseTemplate reads a text. A word in braces must be a placeholder. Any other brace
// is plain text.
func parseTemplate(text string) (t template, err error) {
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
		s, err := placeholder(rest[i+1 : i+n])
		if err != nil {
			return t, err
		}
		if i > 0 {
			t.pieces = append(t.pieces, piece{text: rest[:i]})
		}
		t.pieces = append(t.pieces, s)
		rest, from = rest[i+n+1:], 0
	}
	if rest != "" {
		t.pieces = append(t.pieces, piece{text: rest})
	}
	return t, nil
}

func inPlaceholder(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

func placeholder(text string) (piece, error) {
	s, name := piece{}, text
	if dot := strings.LastIndexByte(text, '.'); dot >= 0 {
		s.limit, name = text[:dot], text[dot+1:]
	}
	if i := slices.Index(wordNames[1:], name); i >= 0 {
		s.word = word(i + 1)
		return s, nil
	}
	return s, fmt.Errorf("{%s} is not a placeholder; use one of {%s}", text, strings.Join(wordNames[1:], "}, {"))
}

// has reports whether a placeholder is in the text.
func (t *template) has(w word) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.word == w })
}

// known reports whether every placeholder of a field has a value.
func (t *template) known(v *values) bool {
	for i := range t.pieces {
		s, of := &t.pieces[i], v
		if s.limit != "" {
			named, ok := v.limited(s.limit)
			if !ok {
				return false
			}
			of = &named
		}
		switch s.word {
		case wordReset, wordResetUnix, wordResetDate, wordResetTime:
			if of.reset == unknown {
				return false
			}
		case wordRetryAfter, wordRetryAfterMS:
			if of.retry == unknown {
				return false
			}
		default:
		}
	}
	return true
}

func (t *template) append(b []byte, v *values) []byte {
	for i := range t.pieces {
		s := &t.pieces[i]
		switch {
		case s.word == wordText:
			b = append(b, s.text...)
		case s.word == wordDetail && t.escape != nil:
			b = t.escape(b, v.detail)
		case s.limit != "":
			named, _ := v.limited(s.limit)
			b = s.word.append(b, &named)
		default:
			b = s.word.append(b, v)
		}
	}
	return b
}

func (w word) append(b []byte, v *values) []byte {
	switch w {
	case wordLimit:
		return strconv.AppendInt(b, v.full, 10)
	case wordQuota:
		return strconv.AppendInt(b, v.quota, 10)
	case wordWindow:
		return strconv.AppendInt(b, up(v.window, time.Second), 10)
	case wordRemaining:
		return strconv.AppendInt(b, v.remaining, 10)
	case wordUsed:
		return strconv.AppendInt(b, max(v.full-v.remaining, 0), 10)
	case wordReset:
		return strconv.AppendInt(b, up(v.reset, time.Second), 10)
	case wordRetryAfter:
		return strconv.AppendInt(b, up(v.retry, time.Second), 10)
	case wordRetryAfterMS:
		return strconv.AppendInt(b, up(v.retry, time.Millisecond), 10)
	case wordRule:
		return append(b, v.rule.Name...)
	case wordName:
		return append(b, v.name...)
	case wordStatus:
		return strconv.AppendInt(b, int64(v.status), 10)
	case wordDetail:
		return append(b, v.detail...)
	default:
		return w.appendInstant(b, v)
	}
}

// appendInstant appends the instant at which the key is full again, rounded up to a
// whole second.
func (w word) appendInstant(b []byte, v *values) []byte {
	if v.reset == unknown {
		if w == wordResetUnix {
			b = append(b, "-1"...)
		}
		return b
	}
	at := v.now.Add(v.reset).UTC()
	if at.Nanosecond() > 0 {
		at = at.Truncate(time.Second).Add(time.Second)
	}
	switch w {
	case wordResetUnix:
		return strconv.AppendInt(b, at.Unix(), 10)
	case wordResetDate:
		return at.AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT")
	default:
		return at.AppendFormat(b, time.RFC3339)
	}
}

// up returns d in units, rounded up; -1 if d is unknown.
func up(d, unit time.Duration) int64 {
	switch {
	case d == unknown:
		return -1
	case d <= 0:
		return 0
	case d%unit > 0:
		return int64(d/unit) + 1
	default:
		return int64(d / unit)
	}
}

// escapeJSON appends s as it stands between the quotes of a JSON string.
func escapeJSON(b, s []byte) []byte {
	quoted, err := json.Marshal(string(s))
	if err != nil { // a string is always marshaled
		return b
	}
	return append(b, quoted[1:len(quoted)-1]...)
}

// escapeXML appends s as it stands in XML or HTML.
func escapeXML(b, s []byte) []byte {
	w := bytes.NewBuffer(b)
	if err := xml.EscapeText(w, s); err != nil { // a buffer takes all
		return b
	}
	return w.Bytes()
}
