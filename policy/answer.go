// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/wire"
)

// Answer is an HTTP front's answer about a rule's limits in the operator's own
// words, such as those of an API that clients know already. Zero parts leave the
// front's answer unchanged.
//
// Its texts have placeholders. A placeholder stands for a value of the binding limit
// among the rule's or, with a limit's name, such as {hour.remaining}, of that limit.
// A Body has no placeholders with a name. The placeholders are:
//
//	{limit} {quota} {window}    units when full; units in a window; its seconds
//	{remaining} {used}          units; {used} is {limit} less {remaining}
//	{reset} {reset_unix}        seconds until the key is as new; the instant since 1970
//	{reset_date} {reset_time}   the instant: Wed, 06 Mar 2013 19:07:58 GMT; 2013-03-06T19:07:58Z
//	{retry_after}               seconds until the request fits, 0 if it passes
//	{retry_after_ms}            milliseconds
//	{rule} {name}               the rule; the limit as clients know it
//	{status} {detail}           in a Body: the status; in words, why
//
// Seconds are whole and rounded up. Where the time is not known, or waiting would not
// help, a field with such a placeholder is left out; in a Body the placeholder is -1,
// or empty for an instant that is not a number. No placeholder holds a value that a
// client sent.
type Answer struct {
	// Status is the status of a denial: 400 to 599, or 200 with a Body for an API that
	// denies so: clients that read the status alone take such a denial for a success.
	// Zero means the rule's status.
	Status int
	// ContentType is the type of Body. In JSON, XML and HTML {detail} is escaped; a
	// JSON Body must be JSON.
	ContentType string
	// Body is the body of a denial. Empty means the front's own body.
	Body string
	// Fields are set on every response to a request that the rule applies to, and
	// Denied on a denial by the rule, after the fields that the front sets by itself. A
	// front that passes responses on removes the fields of these names from them.
	Fields, Denied []AnswerField
	// Limits are the answers to denials by the limits of these names. A zero part means
	// the part of the answer itself. They have no Fields and no Limits.
	Limits map[string]Answer

	body           template
	fields, denied []fieldTemplate
	limits         map[string]*Answer // complete
}

// AnswerField is a header field. It is written with the case of its Name.
type AnswerField struct{ Name, Value string }

type fieldTemplate struct {
	name  string
	value template
}

// Answer returns the answer of the rule that denied the request, or of the limit that
// denied it; nil if the request was not denied or the rule has no answer.
func (e *Event) Answer() *Answer {
	if e.Verdict != Denied || e.Rule == nil || e.Rule.Answer == nil || e.Evaluated == nil {
		return nil
	}
	a := e.Rule.Answer
	if len(a.limits) == 0 {
		return a
	}
	name := ""
	if f := e.Evaluated.InFlight; f != nil {
		name = f.Limit.Name
	} else if e.Evaluated.bound {
		v := e.Evaluated
		name = v.charges[v.binding.charge].Plan.Term(v.binding.term).Name
	}
	if of := a.limits[name]; of != nil {
		return of
	}
	return a
}

// AppendBody appends the body of the answer to a request that was denied.
func (a *Answer) AppendBody(b []byte, e *Event, status int) []byte {
	v := e.values(now())
	if v.status = status; a.body.has(wordDetail) {
		v.detail = e.AppendDetail(nil)
	}
	return a.body.append(b, &v)
}

// now returns the time on which instants in answers are based: this machine's, as in
// the field Date.
func now() time.Time {
	return time.Now() //nolint:forbidigo // no decision is computed of it
}

// SetAnswer sets the header fields of the rules' answers for a request that was
// decided, in the order of the rules and those of a denial last, and returns their
// names. A field replaces an existing one of its name.
func (e *Event) SetAnswer(h http.Header) (names []string) {
	if e.Evaluated == nil || !e.Evaluated.matches.of.answers || !e.Verdict.Passes() && e.Verdict != Denied || e.Verdict == FailedOpen {
		return nil // the remaining units are not known
	}
	now, of := now(), (*Rule)(nil)
	for o := range e.Evaluated.Outcomes() {
		if o.Rule == of || o.Rule.Answer == nil || len(o.Rule.Answer.fields) == 0 {
			continue // the outcomes of a rule lie together
		}
		of = o.Rule
		v := e.values(now)
		if of != e.Rule || e.Limit == nil {
			v = e.Evaluated.tightest(of, now)
		}
		names = setFields(h, of.Answer.fields, &v, names)
	}
	if a := e.Answer(); a != nil {
		v := e.values(now)
		names = setFields(h, a.denied, &v, names)
	}
	return names
}

// setFields sets fields and adds their names.
func setFields(h http.Header, fields []fieldTemplate, v *values, names []string) []string {
	var buf [128]byte
	for i := range fields {
		if f := &fields[i]; f.value.known(v) {
			wire.SetField(h, f.name, []string{string(f.value.append(buf[:0], v))})
			names = append(names, f.name)
		}
	}
	return names
}

// values returns the values of the placeholders for the binding limit.
func (e *Event) values(now time.Time) values {
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
func (v *Verdict) tightest(r *Rule, now time.Time) values {
	var best share
	var limit *sluice.Term
	name := ""
	for o := range v.Outcomes() {
		if o.Rule != r {
			continue
		}
		is := share{o.Outcome, o.Cost}
		if limit == nil || best.Allowed && !is.Allowed || best.Allowed == is.Allowed && tighter(&is, &best, is.Allowed) {
			best, limit, name = is, o.Limit, o.Name()
		}
	}
	t := values{rule: r, evaluated: v, now: now, name: name}
	t.of(limit, best.Outcome)
	return t
}
