// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/placeholder"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// ruleAnswer is a [policy.Answer] whose texts have been read.
type ruleAnswer struct {
	status         int
	contentType    string // empty: no body
	body           template
	fields, denied []fieldTemplate
	limits         map[string]*ruleAnswer // complete
}

type fieldTemplate struct {
	name  string
	value template
}

// ruleAnswers holds the answers of the rules that have one. It may be empty.
type ruleAnswers map[*policy.Rule]*ruleAnswer

// newRuleAnswers reads the answers of a policy's rules.
func newRuleAnswers(p *policy.Policy) ruleAnswers {
	var all ruleAnswers
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		if r.Answer == nil {
			continue
		}
		if all == nil {
			all = make(ruleAnswers)
		}
		a := readAnswer(r.Answer)
		a.fields = readFields(r.Answer.Fields)
		a.limits = make(map[string]*ruleAnswer, len(r.Answer.Limits))
		for name, of := range r.Answer.Limits {
			if of.Body != "" {
				of.ContentType = cmp.Or(of.ContentType, r.Answer.ContentType)
			}
			limit := readAnswer(&of)
			limit.status = cmp.Or(limit.status, a.status)
			if limit.contentType == "" {
				limit.contentType, limit.body = a.contentType, a.body
			}
			limit.denied = slices.Concat(a.denied, limit.denied) // its own fields come last and replace the rule's
			a.limits[name] = limit
		}
		all[r] = a
	}
	return all
}

// readAnswer reads the parts of an answer to a denial.
func readAnswer(a *policy.Answer) *ruleAnswer {
	of := &ruleAnswer{status: a.Status, denied: readFields(a.Denied)}
	if a.Body != "" {
		of.contentType, of.body = a.ContentType, readTemplate(a.Body)
		switch kind, _, _ := mime.ParseMediaType(a.ContentType); {
		case kind == "application/json" || strings.HasSuffix(kind, "+json"):
			of.body.escape = escapeJSON
		case kind == "application/xml" || strings.HasSuffix(kind, "+xml") || kind == "text/xml" || kind == "text/html":
			of.body.escape = escapeXML
		}
	}
	return of
}

func readFields(fields []policy.AnswerField) (list []fieldTemplate) {
	for _, f := range fields {
		list = append(list, fieldTemplate{f.Name, readTemplate(f.Value)})
	}
	return list
}

// readTemplate reads a text that package policy has checked.
func readTemplate(text string) template {
	pieces, _ := placeholder.Parse(text)
	return template{pieces: pieces}
}

// of returns the answer of the rule that denied the request, or of the limit that denied it;
// nil if the request was not denied or the rule has no answer.
func (all ruleAnswers) of(e *evaluate.Event) *ruleAnswer {
	if all == nil || e.Verdict != evaluate.Denied || e.Evaluated == nil {
		return nil
	}
	a := all[e.Rule]
	if a == nil || len(a.limits) == 0 {
		return a
	}
	name := ""
	if f := e.Evaluated.InFlight; f != nil {
		name = f.Limit.Name
	} else if o, ok := e.Evaluated.Binding(nil); ok {
		name = o.Limit.Name
	}
	if of := a.limits[name]; of != nil {
		return of
	}
	return a
}

// appendBody appends the body of the answer to a request that was denied.
func (a *ruleAnswer) appendBody(b []byte, e *evaluate.Event, status int) []byte {
	v := valuesOf(e, time.Now())
	if v.status = status; a.body.has(placeholder.Detail) {
		v.detail = e.AppendDetail(nil)
	}
	return a.body.append(b, &v)
}

// set sets the header fields of the rules' answers for a request that was decided, in the
// order of the rules and those of a denial last, and returns their names. A field replaces an
// existing one of its name. Instants are by this machine's clock, as in the field Date.
func (all ruleAnswers) set(h http.Header, e *evaluate.Event) (names []string) {
	if all == nil || e.Evaluated == nil || !e.Verdict.Passes() && e.Verdict != evaluate.Denied || e.Verdict == evaluate.FailedOpen {
		return nil // the remaining units are not known
	}
	now, of := time.Now(), (*policy.Rule)(nil)
	for o := range e.Evaluated.Outcomes() {
		if o.Rule == of || all[o.Rule] == nil || len(all[o.Rule].fields) == 0 {
			continue // the outcomes of a rule lie together
		}
		of = o.Rule
		v := valuesOf(e, now)
		if of != e.Rule || e.Limit == nil {
			v = tightest(e.Evaluated, of, now)
		}
		names = setTemplates(h, all[of].fields, &v, names)
	}
	if a := all.of(e); a != nil {
		v := valuesOf(e, now)
		names = setTemplates(h, a.denied, &v, names)
	}
	return names
}

// setTemplates sets fields and adds their names.
func setTemplates(h http.Header, fields []fieldTemplate, v *values, names []string) []string {
	var buf [128]byte
	for i := range fields {
		if f := &fields[i]; f.value.known(v) {
			wire.SetField(h, f.name, []string{string(f.value.append(buf[:0], v))})
			names = append(names, f.name)
		}
	}
	return names
}

// valuesOf returns the values of the placeholders for the binding limit.
func valuesOf(e *evaluate.Event, now time.Time) values {
	v := values{rule: e.Rule, evaluated: e.Evaluated, now: now}
	switch {
	case e.Limit != nil:
		v.name = e.Limit.Name
		v.of(e.Limit, sluice.Outcome{Allowed: e.Decision.Allowed, TooLarge: e.Decision.TooLarge, Remaining: e.Decision.Remaining, RetryAfter: e.Decision.RetryAfter, ResetAfter: e.Decision.ResetAfter})
	case e.Evaluated != nil && e.Evaluated.InFlight != nil:
		f := e.Evaluated.InFlight
		v.full, v.quota, v.retry, v.reset = f.Limit.Cap, f.Limit.Cap, unknown, unknown
		v.name = slices.Concat(e.Violated, []string{""})[0]
	}
	return v
}

// tightest returns the values of the binding limit among those of a rule.
func tightest(evaluated *evaluate.Verdict, r *policy.Rule, now time.Time) values {
	o, _ := evaluated.Binding(r)
	t := values{rule: r, evaluated: evaluated, now: now, name: o.Name()}
	t.of(o.Limit, o.Outcome)
	return t
}
