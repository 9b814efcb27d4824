// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Request is a request that was decided. It belongs to one goroutine at a time.
type Request struct {
	mw         *Middleware
	w          http.ResponseWriter // nil if the request is decided by Decide
	x          *exchange.Exchange  // of w; nil until it is needed
	r          *http.Request       // as passed to the next handler
	attributes attributes
	call       evaluate.Call
	status     int    // of the answer, if it is not passed on
	own        bool   // it asks for its own limits
	ahead      *ahead // of the body, if it was read during a delay

	limit *sluice.Term // the limit of item, mostly that of the next request, too
	item  *limitItem

	memory  memory
	buf     []byte  // memory for the body of an answer
	summary Summary // for OnEnd; begun only if OnEnd is set and not yet called

	token policy.Token

	// settlement is for a handler that continues when the client has left. Its functions are
	// made once. A handler that takes it owns the whole Request.
	settlement exchange.Settlement
}

// Decide decides r where no [http.ResponseWriter] sees the outcome of the request, as in many
// frameworks. It blocks while r is delayed. An allowed request is then passed on as
// [Request.HTTP] and must be settled; any other is answered by [Request.Refuse].
//
//	q := mw.Decide(r)
//	if !q.Allowed() {
//		q.Refuse(w)
//		return
//	}
//	q.SetFields(w.Header())
//	resp := policy.Response{Unseen: true, Read: -1} // of a handler that panics
//	defer func() { q.Settle(resp) }()
//	resp.Status, resp.Written = handle(q.HTTP())
//	resp.Unseen = false
//
// Rules that shape slow nothing down here. A body of unknown length is charged at the end, by
// Response.Read, and not while it is read: it may exceed a limit of request bytes once, and
// the excess is owed.
func (m *Middleware) Decide(r *http.Request) *Request {
	q := m.newRequest()
	if m.skips(r) {
		q.r = r
		return q
	}
	q.decide(nil, r)
	return q
}

// newRequest returns a Request with the fields that do not change between uses.
func (m *Middleware) newRequest() *Request {
	q := &Request{mw: m}
	q.attributes.of = q
	return q
}

// Allowed reports whether the request may be passed on.
func (q *Request) Allowed() bool { return q.status == 0 }

// Event returns the verdict and its reason.
func (q *Request) Event() Event { return q.mw.event(&q.attributes, &q.call.Event, q.status) }

// HTTP returns the request to pass on: without the header fields that its Connection field
// names, and with the part of its body that was read during the delay.
func (q *Request) HTTP() *http.Request { return q.r }

// Settle corrects the charges of an allowed request, once its response is known, and
// releases its slots in flight. It blocks for a second at most. A second call does nothing.
func (q *Request) Settle(resp policy.Response) {
	q.settle(resp)
	q.over(&resp)
}

func (q *Request) settle(resp policy.Response) {
	q.letGo()
	q.call.Settle(q.r.Context(), resp)
}

// letGo gives back the bytes that were read ahead.
func (q *Request) letGo() {
	if q.ahead != nil {
		q.ahead.drop()
		q.ahead = nil
	}
}

func (q *Request) decide(w http.ResponseWriter, r *http.Request) {
	m := q.mw
	q.begin(w, wire.EndToEnd(r), m.client(r)) // the next handler does not see the fields that it leaves out
	if q.own {
		q.status = http.StatusOK
		return
	}
	if fault := wire.Fault(q.r); fault != "" && m.admission.Admits(q.attributes.Client()) {
		q.call.Event = evaluate.Event{Verdict: evaluate.Refused, Err: errors.New(fault)}
		m.onDecision(r.Context(), &q.attributes, &q.call.Event)
	} else {
		m.evaluator.Decide(r.Context(), &q.attributes, &q.call)
	}
	q.status = m.answers.status(&q.call.Event)
}

func (q *Request) begin(w http.ResponseWriter, r *http.Request, client netip.Addr) {
	q.w, q.r, q.status = w, r, 0
	q.attributes.Reset(r, client, nil)
	q.start()
	m := q.mw
	q.own = m.own != nil && r.URL.Path == wire.OwnLimits && m.admission.Admits(client) && wire.Fault(r) == ""
}

// end clears everything except the charges, whose memory the next request reuses. It tests
// before it writes, as writing a pointer costs more under the garbage collector.
func (q *Request) end() {
	q.letGo()
	q.w, q.x, q.r, q.own = nil, nil, nil, false
	q.attributes.Reset(nil, netip.Addr{}, nil)
	if q.mw.verifies() {
		q.token = policy.Token{}
	}
	if e := &q.call.Event; e.Err != nil || e.Violated != nil {
		e.Err, e.Violated = nil, nil
	}
}

// serve passes the request on or answers it.
func (q *Request) serve(next http.Handler) {
	if q.awaited() {
		q.observe(next)
	} else {
		q.pass(next)
	}
}

func (q *Request) pass(next http.Handler) {
	if !q.Allowed() {
		q.refuse(q.w)
		return
	}
	q.keep(q.setFields(q.w.Header()))
	denied := q.meter()
	response, upload := q.paces()
	if response == nil && upload == nil && !q.call.Settles() {
		next.ServeHTTP(q.w, q.r)
		return
	}
	x := q.exchange()
	x.Slow(response, upload)
	if q.call.Settles() {
		x.Settlement = q.settles()
	}
	returned := false
	defer func() {
		if !q.settlement.Taken() {
			if denied != nil && denied.Load() != nil {
				q.overrule(denied.Load())
				x.Refused()
			}
			q.settle(q.response(x, returned))
		}
	}()
	next.ServeHTTP(q.w, q.r)
	returned = true
}

// exchange returns the counter of the request's body and of its response.
func (q *Request) exchange() *exchange.Exchange {
	if q.x == nil {
		q.x, q.w = exchange.Count(q.w, q.r)
		q.r = q.x.Watch(q.r)
	}
	return q.x
}

// response returns the outcome of the request. A handler that panicked has answered 500,
// unless it had begun another response.
func (q *Request) response(x *exchange.Exchange, returned bool) policy.Response {
	if body := x.Body(); body != nil {
		body.End()
	}
	resp := policy.Response{Status: x.Status(), Header: q.header, Written: x.Written(), Read: x.Read(), Unseen: x.Lost(), Running: x.Runs()}
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
