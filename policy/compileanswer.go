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
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// maxAnswerBytes is the longest body of an [Answer]; fields have a hundredth of it.
const maxAnswerBytes = 64 << 10

// notInAnswers are fields that the server sets.
var notInAnswers = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// answer compiles a rule's answer, after its levels.
func (c *compiler) answer(r *rule) {
	if r.Answer == nil {
		return
	}
	at := in("Answer")
	a := *r.Answer
	r.Answer = &a
	if r.Shape {
		c.fault(at, "is about denials, and a rule that shapes denies nothing; leave it out")
	}
	if a.Status != 0 && r.Status != 0 {
		c.fault(at.in("Status"), "the rule has a status, too; leave out one of them")
	}
	names := limitNames(r)
	a.fields = c.answerFields(at.in("Fields"), a.Fields, names)
	c.answerParts(&a, at, names)
	c.distinguished(&a, at)
	a.limits = make(map[string]*Answer, len(a.Limits))
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
		of.inherit(&a)
		c.distinguished(&of, here)
		a.limits[name] = &of
	}
}

// distinguished checks that a denial is not taken for a success.
func (c *compiler) distinguished(a *Answer, at Place) {
	if a.Status == http.StatusOK && a.Body == "" {
		c.fault(at.in("Status"), "a denial of status 200 differs from a success by its body only; set a body")
	}
}

// inherit fills the zero parts of a limit's answer from the rule's answer.
func (a *Answer) inherit(of *Answer) {
	a.Status = cmp.Or(a.Status, of.Status)
	if a.Body == "" {
		a.Body, a.ContentType, a.body = of.Body, of.ContentType, of.body
	}
	a.denied = slices.Concat(of.denied, a.denied) // its own fields come last and replace the rule's
}

// answerParts compiles the parts that answer denials.
func (c *compiler) answerParts(a *Answer, at Place, names []string) {
	if s := a.Status; s != 0 && s != 200 && (s < 400 || s > 599) {
		c.fault(at.in("Status"), "%d must be 400 to 599, or 200 for an API that denies so", s)
	}
	a.denied = c.answerFields(at.in("Denied"), a.Denied, names)
	if (a.Body == "") != (a.ContentType == "") {
		c.fault(at, "a body and its content type go together; set both, or none")
		return
	}
	if a.Body != "" {
		a.body = c.answerBody(a, at)
	}
}

func (c *compiler) answerBody(a *Answer, at Place) (t template) {
	kind, _, err := mime.ParseMediaType(a.ContentType)
	if err != nil || !strings.Contains(kind, "/") || !visible(a.ContentType) {
		c.fault(at.in("ContentType"), "%q is no content type; use one such as application/json", a.ContentType)
	}
	here := at.in("Body")
	if len(a.Body) > maxAnswerBytes {
		c.fault(here, "%d bytes; a body has at most %d", len(a.Body), maxAnswerBytes)
		return t
	}
	if t, err = parseTemplate(a.Body); err != nil {
		c.fault(here, "%w", err)
		return t
	}
	for _, s := range t.pieces {
		if s.limit != "" {
			c.fault(here, "{%s.%s} is of a limit that may not apply; use {%s}, of the limit that denied", s.limit, wordNames[s.word], wordNames[s.word])
			return t
		}
	}
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		t.escape = escapeJSON
		if !json.Valid(t.append(nil, &samples[0])) || !json.Valid(t.append(nil, &samples[1])) {
			c.fault(here, "is not JSON, whatever its placeholders are; put text in quotes, not numbers")
		}
	case kind == "application/xml" || strings.HasSuffix(kind, "+xml") || kind == "text/xml" || kind == "text/html":
		t.escape = escapeXML
	case t.has(wordDetail) && kind != "text/plain":
		c.fault(here, "{detail} has quotes and spaces, and how to escape these in %s is not known; leave it out, or write text/plain", kind)
	}
	return t
}

// samples are values of placeholders with which a body is checked: with known times and
// with unknown ones. None of their texts completes an escape before the placeholder.
var samples = [...]values{
	{rule: &Rule{Name: "x"}, name: "x", retry: time.Second, reset: time.Second, now: time.Unix(0, 0), status: 429, detail: []byte(`x "x"`)},
	{rule: &Rule{Name: "x"}, name: "x", retry: unknown, reset: unknown, now: time.Unix(0, 0), status: 429, detail: []byte(`x "x"`)},
}

func (c *compiler) answerFields(at Place, fields []AnswerField, names []string) (compiled []fieldTemplate) {
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
		t, err := parseTemplate(f.Value)
		if err != nil {
			c.fault(here, "%w", err)
		}
		for _, s := range t.pieces {
			switch {
			case s.word == wordStatus || s.word == wordDetail:
				c.fault(here, "{%s} is of a body; leave it out", wordNames[s.word])
			case s.limit != "" && !slices.Contains(names, s.limit):
				c.fault(here, "no limit of the rule has the name %q; it has %s", s.limit, strings.Join(names, ", "))
			}
		}
		compiled = append(compiled, fieldTemplate{f.Name, t})
	}
	return compiled
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
		sets := []*set{l.base}
		for _, tier := range slices.Sorted(maps.Keys(l.tiers)) {
			sets = append(sets, l.tiers[tier])
		}
		for _, o := range l.Overrides {
			sets = append(sets, l.overrides[encodeKey(o.Key)].set)
		}
		for _, s := range sets {
			for t := 0; s != nil && t < s.all.Len(); t++ {
				add(s.all.Term(t).Name)
			}
		}
		if l.InFlight != nil {
			add(l.inFlight.Name)
		}
	}
	return names
}
