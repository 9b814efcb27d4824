// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/placeholder"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// unknown is a time that is not known, or that never comes.
const unknown time.Duration = -1

// values are the values of placeholders.
type values struct {
	rule                   *policy.Rule
	evaluated              *evaluate.Verdict
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
		v.full, v.quota, v.remaining = 0, 0, 0 // a block has no units
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

// template is a text with placeholders.
type template struct {
	pieces []placeholder.Piece
	escape func(b, s []byte) []byte // of a detail; nil: unchanged
}

// has reports whether a placeholder is in the text.
func (t *template) has(w placeholder.Word) bool {
	return slices.ContainsFunc(t.pieces, func(p placeholder.Piece) bool { return p.Word == w })
}

// known reports whether every placeholder of a field has a value.
func (t *template) known(v *values) bool {
	for i := range t.pieces {
		s, of := &t.pieces[i], v
		if s.Limit != "" {
			named, ok := v.limited(s.Limit)
			if !ok {
				return false
			}
			of = &named
		}
		switch s.Word {
		case placeholder.Reset, placeholder.ResetUnix, placeholder.ResetDate, placeholder.ResetTime:
			if of.reset == unknown {
				return false
			}
		case placeholder.RetryAfter, placeholder.RetryAfterMS:
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
		case s.Word == placeholder.Text:
			b = append(b, s.Text...)
		case s.Word == placeholder.Detail && t.escape != nil:
			b = t.escape(b, v.detail)
		case s.Limit != "":
			named, _ := v.limited(s.Limit)
			b = appendValue(b, s.Word, &named)
		default:
			b = appendValue(b, s.Word, v)
		}
	}
	return b
}

// appendValue appends the value of a placeholder.
func appendValue(b []byte, w placeholder.Word, v *values) []byte {
	switch w {
	case placeholder.Limit:
		return strconv.AppendInt(b, v.full, 10)
	case placeholder.Quota:
		return strconv.AppendInt(b, v.quota, 10)
	case placeholder.Window:
		return strconv.AppendInt(b, up(v.window, time.Second), 10)
	case placeholder.Remaining:
		return strconv.AppendInt(b, v.remaining, 10)
	case placeholder.Used:
		return strconv.AppendInt(b, max(v.full-v.remaining, 0), 10)
	case placeholder.Reset:
		return strconv.AppendInt(b, up(v.reset, time.Second), 10)
	case placeholder.RetryAfter:
		return strconv.AppendInt(b, up(v.retry, time.Second), 10)
	case placeholder.RetryAfterMS:
		return strconv.AppendInt(b, up(v.retry, time.Millisecond), 10)
	case placeholder.Rule:
		return append(b, v.rule.Name...)
	case placeholder.Name:
		return append(b, v.name...)
	case placeholder.Status:
		return strconv.AppendInt(b, int64(v.status), 10)
	case placeholder.Detail:
		return append(b, v.detail...)
	default:
		return appendInstant(b, w, v)
	}
}

// appendInstant appends the instant at which the key is full again, rounded up to a
// whole second.
func appendInstant(b []byte, w placeholder.Word, v *values) []byte {
	if v.reset == unknown {
		if w == placeholder.ResetUnix {
			b = append(b, "-1"...)
		}
		return b
	}
	at := v.now.Add(v.reset).Add(time.Second - 1).UTC() // the fraction of the second is not written
	switch w {
	case placeholder.ResetUnix:
		return strconv.AppendInt(b, at.Unix(), 10)
	case placeholder.ResetDate:
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
	default:
		return int64((d-1)/unit) + 1
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
