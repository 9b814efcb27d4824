// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// warningField warns a client whose request passed that later requests may be denied. It
// is a list in the format of RateLimit, with a reason:
//
//	RateLimit-Warning: "api";r=499;t=86400;why="soft"
//	RateLimit-Warning: "api";r=3;t=20;why="near"
//
// "soft" means that the request went over a soft limit, and r is the rest of its grace
// limit. "near" means that a tenth of the limit's full units is left, or too few for
// another such request.
const warningField = "RateLimit-Warning"

// Refuse answers a request that is not passed on.
func (q *Request) Refuse(w http.ResponseWriter) {
	if q.awaited() {
		x, next := exchange.Count(w, q.r)
		defer func() { q.over(&policy.Response{Status: x.Status(), Written: x.Written()}) }()
		w = next
	}
	q.refuse(w)
}

func (q *Request) refuse(w http.ResponseWriter) {
	defer q.letGo()
	e, opts, h := &q.call.Event, &q.mw.opts, w.Header()
	if q.own {
		q.mw.own.serve(w, q.r, &q.attributes, q.attributes.Client())
		return
	}
	started := len(h) > 0
	if e.Verdict == evaluate.Denied && e.Limit != nil {
		item := q.limitItem()
		opts.Fields.set(h, &q.memory, item, q.policies(item), &e.Decision)
		if opts.Fields&(XRateLimit|XRateLimitEpoch) != 0 {
			exchange.Release(w, xFields)
		}
	}
	if names := q.mw.answers.set(h, e); names != nil {
		exchange.Release(w, names)
		started = true
	}
	if token, ok := e.Err.(*policy.TokenError); ok { //nolint:errorlint // the evaluator has unwrapped it
		challenge(h, token)
	}
	if opts.Refuse != nil {
		setRetryAfter(h, e)
		opts.Refuse(w, q.r, q.Event())
		return
	}
	if started {
		deleteStarted(h)
	}
	p := problem{Event: e, status: q.status, answer: q.mw.answers.of(e), memory: &q.memory, buf: q.buf[:0]}
	if e.Limit != nil {
		p.item = q.limitItem()
	}
	p.write(w, q.r)
	if cap(p.buf) <= mostBuffered {
		q.buf = p.buf
	}
}

// mostBuffered is the size of the largest body buffer that a Request keeps for the next one.
const mostBuffered = 1 << 10

// challenge says that the token is not usable or missing, in the form of RFC 6750, section 3.
func challenge(h http.Header, token *policy.TokenError) {
	value := "Bearer"
	if !token.Missing {
		value += ` error="invalid_token", error_description=` + strconv.Quote(token.Problem)
	}
	h["Www-Authenticate"] = []string{value}
}

// policies returns RateLimit-Policy for all limits that applied. The one that binds has item.
func (q *Request) policies(item *limitItem) string {
	if q.call.Evaluated.Limits == 1 {
		return item.policy
	}
	var buf [256]byte
	b := buf[:0]
	for t := range q.call.Limits() {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, q.mw.items.of(t).policy...)
	}
	return string(b)
}

// limitItem returns the constant texts of the limit that binds.
func (q *Request) limitItem() *limitItem {
	if q.limit != q.call.Limit {
		q.limit, q.item = q.call.Limit, q.mw.items.of(q.call.Limit)
	}
	return q.item
}

// limitItems are the constant texts of limits, each made when it is first needed. Their
// number is bounded by the number of the policy's limits, times the different sizes of the
// fleet in outages.
type limitItems struct{ made sync.Map } // *sluice.Term to *limitItem

type limitItem struct {
	policy string                 // of RateLimit-Policy
	head   string                 // of RateLimit
	full   string                 // X-RateLimit-Limit
	denial atomic.Pointer[denial] // nil: not needed yet
}

func (i *limitItems) of(t *sluice.Term) *limitItem {
	if made, ok := i.made.Load(t); ok {
		return made.(*limitItem) //nolint:forcetypeassert // nothing else is ever stored
	}
	made, _ := i.made.LoadOrStore(t, &limitItem{policy: string(appendPolicy(nil, t)), head: headOf(t), full: fullOf(t)})
	return made.(*limitItem) //nolint:forcetypeassert // nothing else is ever stored
}

// SetFields sets the header fields of the answer to a request that is passed on.
func (q *Request) SetFields(h http.Header) { q.setFields(h) }

// setFields is SetFields; it returns the names of fields from the rules' answers.
func (q *Request) setFields(h http.Header) (own []string) {
	c, fields := &q.call, q.mw.opts.Fields
	if c.Limit == nil {
		return nil
	}
	item := q.limitItem()
	fields.set(h, &q.memory, item, q.policies(item), &c.Decision)
	own = q.mw.answers.set(h, &c.Event)
	if fields&NoFields != 0 {
		return own
	}
	var warning []byte
	for w := range c.Evaluated.Warnings() {
		warning = appendWarning(warning, w.Name, w.Left.Remaining, w.Left.ResetAfter, "soft")
	}
	if warning == nil && near(c.Limit, c.Charge.Cost, c.Decision.Remaining) {
		warning = appendWarning(warning, c.Limit.Name, c.Decision.Remaining, c.Decision.ResetAfter, "near")
	}
	if warning != nil {
		h[warningField] = []string{string(warning)} // with this case on the wire
	}
	return own
}

// near reports whether a limit will soon deny.
func near(limit *sluice.Term, cost, remaining int64) bool {
	return remaining < cost || remaining <= limit.Full/10
}

// xFields are no lists: a second set of them would contradict the first.
var xFields = []string{fieldXLimit, fieldXRemaining, fieldXReset}

// keep protects the fields that were set from fields of the same names by the next handler:
// those of rules' answers always, those of XRateLimit where an exchange exists already, as
// around a gateway.
func (q *Request) keep(own []string) {
	if own != nil {
		q.exchange().Keep(own)
	}
	if q.mw.opts.Fields&(XRateLimit|XRateLimitEpoch) == 0 || q.call.Limit == nil {
		return
	}
	if x := exchange.Of(q.w); x != nil {
		x.Keep(xFields)
	}
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
