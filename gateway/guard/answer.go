// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
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

// deny answers a request that is not let through.
func (c *request) deny() {
	v := &c.verdict
	if v.Refused != nil {
		if token, ok := errors.AsType[*policy.TokenError](v.Refused.Err); ok {
			denyToken(c.w, c.r, token)
			return
		}
		httplimit.WriteProblem(c.w, c.r, httplimit.Event{Verdict: httplimit.Refused, Status: http.StatusBadRequest, Err: v.Refused})
		return
	}
	if f := v.InFlight; f != nil {
		// There is no Retry-After: nobody knows when another request will end.
		httplimit.WriteProblem(c.w, c.r, httplimit.Event{
			Verdict: httplimit.Denied, Status: cmp.Or(f.Rule.Status, http.StatusTooManyRequests),
			Violated: []string{levelName(f.Rule, f.Level) + "/" + f.Limit.Name},
		})
		return
	}
	binding, bound := v.Binding()
	if !bound {
		httplimit.WriteProblem(c.w, c.r, httplimit.Event{Verdict: httplimit.FailedClosed, Status: http.StatusServiceUnavailable, Err: v.Err})
		return
	}
	l := c.guard.names.label(&binding)
	c.guard.opts.Fields.Set(c.w.Header(), c.policies(), &l.term, v.Decision)
	httplimit.WriteProblem(c.w, c.r, httplimit.Event{
		Verdict: httplimit.Denied, Status: cmp.Or(binding.Rule.Status, http.StatusTooManyRequests),
		Decision: v.Decision, Limit: &l.term, Charge: sluice.Charge{Key: binding.Key, Cost: binding.Cost},
		Violated: c.violated(l.term.Name),
	})
}

// denyToken answers a request whose token cannot be used, or that must have one,
// as RFC 6750, section 3, has it.
func denyToken(w http.ResponseWriter, r *http.Request, token *policy.TokenError) {
	challenge := "Bearer"
	if !token.Missing {
		challenge += ` error="invalid_token", error_description=` + strconv.Quote(token.Problem)
	}
	w.Header()["Www-Authenticate"] = []string{challenge}
	httplimit.WriteProblem(w, r, httplimit.Event{Verdict: httplimit.Refused, Status: http.StatusUnauthorized, Err: token})
}

// policies returns RateLimit-Policy of all limits that applied.
func (c *request) policies() string {
	first, b := "", []byte(nil)
	for o := range c.verdict.Outcomes() {
		item := c.guard.names.label(&o).item
		if first == "" {
			first = item // mostly the only one
			continue
		}
		if b == nil {
			b = append(b, first...)
		}
		b = append(append(b, ", "...), item...)
	}
	if b == nil {
		return first
	}
	return string(b)
}

// violated returns the names of the limits that denied, the binding one first.
func (c *request) violated(binding string) []string {
	all := []string{binding}
	for o := range c.verdict.Outcomes() {
		if !o.Allowed {
			if name := c.guard.names.label(&o).term.Name; !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// tell sets the fields of a request that is let through.
func (c *request) tell() {
	v := &c.verdict
	binding, bound := v.Binding()
	if !bound {
		return
	}
	fields := c.guard.opts.Fields
	l := c.guard.names.label(&binding)
	h := c.w.Header()
	fields.Set(h, c.policies(), &l.term, v.Decision)
	if fields&httplimit.NoFields != 0 {
		return
	}
	var warning []byte
	for w := range v.Warnings() {
		warning = appendWarning(warning, levelName(w.Rule, w.Level), w.Left.Remaining, w.Left.ResetAfter, "soft")
	}
	if warning == nil && near(&binding, v.Decision.Remaining) {
		warning = appendWarning(warning, l.term.Name, v.Decision.Remaining, v.Decision.ResetAfter, "near")
	}
	if warning != nil {
		h[WarningField] = []string{string(warning)} // with this case on the wire
	}
}

// near reports whether a limit will soon deny.
func near(o *policy.Outcome, remaining int64) bool {
	return remaining < o.Cost || remaining <= o.Limit.Full()/10
}

func appendWarning(b []byte, name string, remaining int64, reset time.Duration, why string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(append(append(b, '"'), name...), `";r=`...)
	b = strconv.AppendInt(b, max(remaining, 0), 10)
	b = strconv.AppendInt(append(b, ";t="...), seconds(reset), 10)
	return append(append(append(b, `;why="`...), why...), '"')
}

// seconds returns d in whole seconds, rounded up: never too early.
func seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}
