// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/placeholder"
	"github.com/sluicegate/sluice/internal/wire"
)

// maxAnswerBytes is the longest body of an [Answer]; fields have a hundredth of it.
const maxAnswerBytes = 64 << 10

// notInAnswers are fields that the server sets.
var notInAnswers = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// answer checks a rule's answer, after its levels.
func (c *compiler) answer(r *rule) {
	if r.Answer == nil {
		return
	}
	at := in("Answer")
	a := r.Answer
	if r.Shape {
		c.fault(at, "is about denials, and a rule that shapes denies nothing; leave it out")
	}
	if a.Status != 0 && r.Status != 0 {
		c.fault(at.in("Status"), "the rule has a status, too; leave out one of them")
	}
	names := limitNames(r)
	c.answerFields(at.in("Fields"), a.Fields, names)
	c.answerParts(a, at, names)
	c.distinguished(a, at)
	for _, name := range slices.Sorted(maps.Keys(a.Limits)) {
		here := at.in("Limits").key(name)
		if !slices.Contains(names, name) {
			c.fault(here, "no limit of the rule has the name %q; it has %s", name, strings.Join(names, ", "))
		}
		of := a.Limits[name]
		if len(of.Fields) > 0 || len(of.Limits) > 0 {
			c.fault(here, "the answer of a limit is to its denials; fields of every response, and other limits, belong to the rule's")
		}
		if of.Body != "" {
			of.ContentType = cmp.Or(of.ContentType, a.ContentType)
		}
		c.answerParts(&of, here, names)
		of.Status, of.Body = cmp.Or(of.Status, a.Status), cmp.Or(of.Body, a.Body) // missing parts are the rule's
		c.distinguished(&of, here)
	}
}

// distinguished checks that a denial is not taken for a success.
func (c *compiler) distinguished(a *Answer, at place) {
	if a.Status == http.StatusOK && a.Body == "" {
		c.fault(at.in("Status"), "a denial of status 200 differs from a success by its body only; set a body")
	}
}

// answerParts checks the parts that answer denials.
func (c *compiler) answerParts(a *Answer, at place, names []string) {
	if s := a.Status; s != 0 && s != 200 && (s < 400 || s > 599) {
		c.fault(at.in("Status"), "%d must be 400 to 599, or 200 for an API that denies so", s)
	}
	c.answerFields(at.in("Denied"), a.Denied, names)
	if (a.Body == "") != (a.ContentType == "") {
		c.fault(at, "a body and its content type go together; set both, or none")
		return
	}
	if a.Body != "" {
		c.answerBody(a, at)
	}
}

func (c *compiler) answerBody(a *Answer, at place) {
	kind, _, err := mime.ParseMediaType(a.ContentType)
	if err != nil || !strings.Contains(kind, "/") || !visible(a.ContentType) {
		c.fault(at.in("ContentType"), "%q is no content type; use one such as application/json", a.ContentType)
	}
	here := at.in("Body")
	if len(a.Body) > maxAnswerBytes {
		c.fault(here, "%d bytes; a body has at most %d", len(a.Body), maxAnswerBytes)
		return
	}
	pieces, err := placeholder.Parse(a.Body)
	if err != nil {
		c.fault(here, "%w", err)
		return
	}
	detailed := false
	for _, s := range pieces {
		if s.Limit != "" {
			c.fault(here, "{%s.%s} is of a limit that may not apply; use {%s}, of the limit that denied", s.Limit, s.Word, s.Word)
			return
		}
		detailed = detailed || s.Word == placeholder.Detail
	}
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		if !json.Valid(filled(pieces, 0)) || !json.Valid(filled(pieces, 1)) {
			c.fault(here, "is not JSON, whatever its placeholders are; put text in quotes, not numbers")
		}
	case kind == "application/xml" || strings.HasSuffix(kind, "+xml") || kind == "text/xml" || kind == "text/html":
	case detailed && kind != "text/plain":
		c.fault(here, "{detail} has quotes and spaces, and how to escape these in %s is not known; leave it out, or write text/plain", kind)
	}
}

// samples are values of placeholders with which a body of JSON is checked: with a known time
// and with an unknown one. A word without samples is a number. None of the texts completes an
// escape before the placeholder.
var samples = map[placeholder.Word][2]string{
	placeholder.Reset:        {"1", "-1"},
	placeholder.ResetUnix:    {"1", "-1"},
	placeholder.ResetDate:    {"Thu, 01 Jan 1970 00:00:01 GMT", ""},
	placeholder.ResetTime:    {"1970-01-01T00:00:01Z", ""},
	placeholder.RetryAfter:   {"1", "-1"},
	placeholder.RetryAfterMS: {"1000", "-1"},
	placeholder.Rule:         {"x", "x"},
	placeholder.Name:         {"x", "x"},
	placeholder.Status:       {"429", "429"},
	placeholder.Detail:       {`x \"x\"`, `x \"x\"`},
}

// filled returns a body with the i-th samples.
func filled(pieces []placeholder.Piece, i int) (b []byte) {
	for _, p := range pieces {
		value, ok := samples[p.Word]
		switch {
		case p.Word == placeholder.Text:
			b = append(b, p.Text...)
		case ok:
			b = append(b, value[i]...)
		default:
			b = append(b, '0')
		}
	}
	return b
}

func (c *compiler) answerFields(at place, fields []AnswerField, names []string) {
	for i, f := range fields {
		here := at.item(i)
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		switch {
		case !wire.Token(f.Name):
			c.fault(here, "%q is not a header field's name; use one such as X-User", f.Name)
		case slices.Contains(notInAnswers, name):
			c.fault(here, "%s is set by the server; leave it out", name)
		case slices.ContainsFunc(fields[:i], func(o AnswerField) bool { return strings.EqualFold(o.Name, f.Name) }):
			c.fault(here, "%s occurs twice; remove one of them", f.Name)
		case !visible(f.Value) || len(f.Value) > maxAnswerBytes/100:
			c.fault(here, "the value of %s must be at most %d printable characters of ASCII", f.Name, maxAnswerBytes/100)
		}
		pieces, err := placeholder.Parse(f.Value)
		if err != nil {
			c.fault(here, "%w", err)
		}
		for _, s := range pieces {
			switch {
			case s.Word == placeholder.Status || s.Word == placeholder.Detail:
				c.fault(here, "{%s} is of a body; leave it out", s.Word)
			case s.Limit != "" && !slices.Contains(names, s.Limit):
				c.fault(here, "no limit of the rule has the name %q; it has %s", s.Limit, strings.Join(names, ", "))
			}
		}
	}
}

// visible reports whether s is one line of text that a field may have.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) && strings.Trim(s, " ") == s
}

// limitNames returns the names of all limits that a request may have under r.
func limitNames(r *rule) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range r.levels {
		l := &r.levels[i]
		sets := []*Set{l.Base}
		for _, tier := range slices.Sorted(maps.Keys(l.ByTier)) {
			sets = append(sets, l.ByTier[tier])
		}
		sets = append(sets, l.ByOverride...)
		for _, s := range sets {
			for t := 0; s != nil && t < s.All.Len(); t++ {
				add(s.All.Term(t).Name)
			}
		}
		if l.InFlight != nil {
			add(l.Slots.Name)
		}
	}
	return names
}
