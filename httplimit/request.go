// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// Request is a request that was decided. It belongs to one goroutine at a time.
type Request struct {
	mw         *Middleware
	w          http.ResponseWriter // nil if another than Wrap asks
	x          *exchange.Exchange  // of w; nil until it is needed
	r          *http.Request       // as the next handler gets it
	client     netip.Addr
	attributes attributes
	verdict    policy.Verdict
	event      Event
	limit      *label // the one that binds
	own        bool   // it asks for its own limits
	stop       func() // ends the renewal of slots; nil if there are none

	claims   func(string) (string, error)
	token    error // why there are no claims; nil also if there is no token
	verified bool
	claim    func(string) (string, error) // q.lookUp, made once
}

// Response is what became of a request that was passed on.
type Response = policy.Response

// Decide is for where there is no [http.ResponseWriter] that sees what becomes of
// a request, as in many a framework: it decides r, and blocks while r is held
// back. What is allowed is then passed on as [Request.HTTP] and must be settled;
// what is not is answered by [Request.Refuse].
//
//	q := mw.Decide(r)
//	if !q.Allowed() {
//		q.Refuse(w)
//		return
//	}
//	q.SetFields(w.Header())
//	resp := httplimit.Response{Unseen: true, Read: -1} // of a handler that panics
//	defer func() { q.Settle(resp) }()
//	resp.Status, resp.Written = handle(q.HTTP())
//	resp.Unseen = false
//
// Rules that shape slow nothing down here.
func (m *Middleware) Decide(r *http.Request) *Request {
	q := new(Request)
	q.decide(m, nil, r)
	return q
}

// Allowed reports whether the request may be passed on.
func (q *Request) Allowed() bool { return q.event.Status == 0 }

// Event returns what was decided.
func (q *Request) Event() Event { return q.event }

// HTTP returns the request as it is to be passed on: without the header fields
// that its Connection field names, and with what was read of its body while it was
// held back.
func (q *Request) HTTP() *http.Request { return q.r }

// Settle puts right what an allowed request was charged, now that its response is
// known, and frees its slots in flight. It blocks for a second at most. A second
// call does nothing.
func (q *Request) Settle(resp Response) {
	if q.stop != nil {
		q.stop()
		q.stop = nil
	}
	q.mw.report(q.r, q.verdict.Settle(q.r.Context(), resp))
}

func (q *Request) decide(m *Middleware, w http.ResponseWriter, r *http.Request) {
	client, known := m.finder.Client(r.RemoteAddr, r.Header)
	if !known {
		client = netip.Addr{}
	}
	q.begin(m, w, wire.EndToEnd(r), client) // who is next does not see what it leaves out
	if q.own {
		q.event = Event{Status: http.StatusOK}
		return
	}
	if fault := wire.Fault(q.r); !m.Admits(client) {
		q.event = Event{Verdict: Refused, Status: http.StatusForbidden, Err: errForbidden}
	} else if fault != "" {
		q.event = Event{Verdict: Refused, Status: http.StatusBadRequest, Err: errors.New(fault)}
	} else {
		q.judge(r.Context())
	}
	if m.opts.OnDecision != nil {
		m.opts.OnDecision(q.r, q.event)
	}
	if !q.Allowed() {
		return
	}
	if lease := q.verdict.Lease(); lease > 0 { // not before the hook, which may panic
		q.stop = m.renew(q.r, &q.verdict, lease)
	}
}

var errForbidden = errors.New("clients from this network are not let in")

func (q *Request) begin(m *Middleware, w http.ResponseWriter, r *http.Request, client netip.Addr) {
	q.mw, q.w, q.r, q.client = m, w, r, client
	if q.claim == nil {
		q.claim = q.lookUp
	}
	var claims func(string) (string, error)
	if m.opts.Claims != nil {
		claims = q.claim
	}
	q.attributes.Reset(r, client, claims)
	q.attributes.switches = maySwitch(r)
	q.own = m.opts.Own != nil && r.URL.Path == OwnPath && m.Admits(client) && wire.Fault(r) == ""
}

// end lets go of all that belongs to the request.
func (q *Request) end() {
	q.mw, q.w, q.x, q.r, q.client = nil, nil, nil, nil, netip.Addr{}
	q.claims, q.token, q.verified = nil, nil, false
	q.attributes, q.own, q.stop, q.limit = attributes{}, false, nil, nil
	q.event.Err, q.event.Violated = nil, nil // the rest is the policy's, and set anew
}

// judge asks the store, and holds the request back if need be.
func (q *Request) judge(ctx context.Context) {
	m, v := q.mw, &q.verdict
	m.judge.Decide(ctx, &q.attributes, v)
	if q.conclude(ctx); q.event.Verdict != Abandoned { // a store that gave up because the client did has not failed
		m.report(q.r, v.Err)
	}
	if q.Allowed() && v.Decision.Delay > 0 {
		q.hold(ctx)
	}
}

// serve passes the request on, or answers it.
func (q *Request) serve(next http.Handler) {
	if !q.Allowed() {
		q.Refuse(q.w)
		return
	}
	q.SetFields(q.w.Header())
	response, upload := q.paces()
	if response == nil && upload == nil && !q.verdict.Settles() {
		next.ServeHTTP(q.w, q.r)
		return
	}
	x := q.exchange()
	x.Slow(response, upload)
	returned := false
	defer func() { q.Settle(q.response(x, returned)) }()
	next.ServeHTTP(q.w, q.r)
	returned = true
}

// exchange returns what counts the request's body and its response.
func (q *Request) exchange() *exchange.Exchange {
	if q.x == nil {
		q.x, q.w = exchange.Count(q.w, q.r)
		q.r = q.x.Watch(q.r)
	}
	return q.x
}

// response returns what is known of a response. A handler that did not return
// answered 500, unless it had begun with something else.
func (q *Request) response(x *exchange.Exchange, returned bool) Response {
	if body := x.Body(); body != nil {
		body.End()
	}
	resp := Response{Status: x.Status(), Header: q.header, Written: x.Written(), Read: x.Read(), Unseen: x.Lost()}
	switch {
	case resp.Status != 0:
	case returned:
		resp.Status = http.StatusOK
	default:
		resp.Status = http.StatusInternalServerError
	}
	return resp
}

func (q *Request) header(name string) []string { return q.w.Header()[name] }
