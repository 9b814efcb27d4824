// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// WarningField tells a client whose request was let through that its next ones
// may not be. It is a list in the format of RateLimit, with a reason:
//
//	RateLimit-Warning: "api";r=499;t=86400;why="soft"
//	RateLimit-Warning: "api";r=3;t=20;why="near"
//
// A soft one went over a soft limit, and r is what its grace has left; a near
// one has a tenth left of what the limit holds when full, or no room for another
// such request.
const WarningField = "RateLimit-Warning"

// conclude says what follows from the verdict.
func (q *Request) conclude(ctx context.Context) {
	v, e := &q.verdict, &q.event
	*e = Event{Decision: v.Decision, Err: v.Err, Judged: v}
	if binding, bound := v.Binding(); bound {
		q.limit = q.mw.names.label(&binding)
		e.Limit = &q.limit.term
		e.Charge = sluice.Charge{Key: binding.Key, Cost: binding.Cost}
		if !v.Allowed {
			e.Verdict, e.Status, e.Violated = Denied, cmp.Or(binding.Rule.Status, http.StatusTooManyRequests), q.violated(e.Limit.Name)
			return
		}
	}
	switch {
	case v.Refused != nil:
		e.Verdict, e.Status, e.Err = Refused, http.StatusBadRequest, v.Refused
		if token, ok := errors.AsType[*policy.TokenError](v.Refused.Err); ok {
			e.Status, e.Err = http.StatusUnauthorized, token
		}
	case v.InFlight != nil:
		f := v.InFlight
		// There is no Retry-After: nobody knows when another request will end.
		e.Decision = sluice.Decision{}
		e.Verdict, e.Status = Denied, cmp.Or(f.Rule.Status, http.StatusTooManyRequests)
		e.Violated = []string{levelName(f.Rule, f.Level) + "/" + f.Limit.Name}
	case v.Err != nil && ctx.Err() != nil:
		q.mw.report(q.r, v.Cancel(ctx))
		e.Verdict, e.Status, e.Err = Abandoned, http.StatusServiceUnavailable, ctx.Err()
	case !v.Allowed:
		e.Verdict, e.Status = FailedClosed, http.StatusServiceUnavailable
	case v.Err != nil:
		e.Verdict = FailedOpen
	default:
		q.shadowed(e)
	}
}

// shadowed names what rules in shadow mode would have denied.
func (q *Request) shadowed(e *Event) {
	for s := range q.verdict.Sides() {
		if !s.Shadow || s.Err != nil || s.Allowed {
			continue
		}
		e.Verdict = Shadowed
		name := s.Rule.Name
		if s.Limit != nil && len(s.Rule.Levels) == 1 {
			name = limitName(s.Rule, &s.Rule.Levels[0], s.Limit.Name)
		}
		e.Violated = append(e.Violated, name)
	}
}

// Refuse answers a request that is not passed on.
func (q *Request) Refuse(w http.ResponseWriter) {
	e, opts := &q.event, &q.mw.opts
	if q.own {
		opts.Own.serve(w, q.r, &q.attributes.HTTP, q.client)
		return
	}
	if e.Verdict == Denied && e.Limit != nil {
		opts.Fields.Set(w.Header(), q.policies(), e.Limit, e.Decision)
	}
	if token, ok := e.Err.(*policy.TokenError); ok { //nolint:errorlint // conclude has unwrapped it
		challenge(w.Header(), token)
	}
	if opts.Refuse != nil {
		setRetryAfter(w.Header(), e)
		opts.Refuse(w, q.r, *e)
		return
	}
	WriteProblem(w, q.r, *e)
}

// challenge says that a token cannot be used, or that there must be one, as RFC
// 6750, section 3, has it.
func challenge(h http.Header, token *policy.TokenError) {
	value := "Bearer"
	if !token.Missing {
		value += ` error="invalid_token", error_description=` + strconv.Quote(token.Problem)
	}
	h["Www-Authenticate"] = []string{value}
}

// policies returns RateLimit-Policy of all limits that applied.
func (q *Request) policies() string {
	if q.verdict.Limits() == 1 {
		return q.limit.item
	}
	var buf [256]byte
	b := buf[:0]
	for o := range q.verdict.Outcomes() {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, q.mw.names.label(&o).item...)
	}
	return string(b)
}

// violated returns the names of the limits that denied, the binding one first.
func (q *Request) violated(binding string) []string {
	all := []string{binding}
	for o := range q.verdict.Outcomes() {
		if !o.Allowed {
			if name := q.mw.names.label(&o).term.Name; !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// SetFields sets the header fields of the answer to a request that is passed on.
func (q *Request) SetFields(h http.Header) {
	v, fields := &q.verdict, q.mw.opts.Fields
	if q.limit == nil {
		return
	}
	fields.Set(h, q.policies(), &q.limit.term, v.Decision)
	if fields&NoFields != 0 {
		return
	}
	var warning []byte
	for w := range v.Warnings() {
		warning = appendWarning(warning, levelName(w.Rule, w.Level), w.Left.Remaining, w.Left.ResetAfter, "soft")
	}
	if warning == nil && near(&q.limit.term, q.event.Charge.Cost, v.Decision.Remaining) {
		warning = appendWarning(warning, q.limit.term.Name, v.Decision.Remaining, v.Decision.ResetAfter, "near")
	}
	if warning != nil {
		h[WarningField] = []string{string(warning)} // with this case on the wire
	}
}

// near reports whether a limit will soon deny.
func near(limit *sluice.Term, cost, remaining int64) bool {
	return remaining < cost || remaining <= limit.Full()/10
}

func appendWarning(b []byte, name string, remaining int64, reset time.Duration, why string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(append(append(b, '"'), name...), `";r=`...)
	b = strconv.AppendInt(b, max(remaining, 0), 10)
	b = strconv.AppendInt(append(b, ";t="...), ceilSeconds(reset), 10)
	return append(append(append(b, `;why="`...), why...), '"')
}
