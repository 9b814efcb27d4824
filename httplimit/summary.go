// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/policy"
)

// statusClientGone is the status of a request whose client left before the response.
const statusClientGone = 499

// Upstream is the outcome of a request that a gateway passed on.
type Upstream = exchange.Upstream

// Summary describes a request that is over. The Summary and all values that it points to are
// valid until OnEnd returns.
type Summary struct {
	// Event is the verdict. If Own, it has the Request alone.
	Event Event
	// Own says that a client has asked for its own limits: see [Options.OwnLimits]. Nothing
	// was decided or charged.
	Own    bool
	Client netip.Addr
	// Status is the status of the response, 101 if the protocol was switched. It is 499 if
	// the client left before the response, and 0 if there was none for another reason.
	Status int
	// Broken says that the handler panicked, as it does to break off a response, or that the
	// client left before the response.
	Broken bool
	// Written are the bytes of the response's body that were sent, and Read those of the
	// request's body that were read, with those after a switch of protocols. Read is -1 if
	// not known.
	Written, Read int64
	Began         time.Time     // when the request's header was complete
	Took          time.Duration // since then, including any delay
	// Upstream is the outcome of the request at an upstream. Its URL is empty if there was
	// none, or the request was not passed on.
	Upstream *Upstream
}

// start begins the summary of a request, if OnEnd is set.
func (q *Request) start() {
	if q.mw.opts.OnEnd == nil {
		return
	}
	if q.w != nil {
		q.summary.Began = exchange.Came(q.w)
	}
	if q.summary.Began.IsZero() {
		q.summary.Began = time.Now()
	}
}

// awaited reports whether OnEnd is yet to be called.
func (q *Request) awaited() bool { return !q.summary.Began.IsZero() }

// observe passes the request on or answers it, and reports its outcome.
func (q *Request) observe(next http.Handler) {
	x := q.exchange()
	q.summary.Upstream = x.Observe()
	returned := false
	defer func() {
		if q.settlement.Taken() {
			return
		}
		q.summary.Broken = !returned
		resp := policy.Response{Status: x.Status(), Written: x.Written(), Read: x.Read()}
		if resp.Status == 0 && returned {
			resp.Status = http.StatusOK // net/http sends it
		}
		q.summary.Took = time.Since(q.summary.Began)
		q.over(&resp)
	}()
	q.pass(next)
	returned = true
}

// over calls OnEnd once.
func (q *Request) over(resp *policy.Response) {
	s := &q.summary
	if s.Began.IsZero() {
		return
	}
	if s.Upstream == nil {
		s.Upstream = new(Upstream)
	}
	if s.Event.Request = &q.attributes; !q.own {
		s.Event = q.mw.event(&q.attributes, &q.call.Event, q.status)
	}
	s.Own, s.Client, s.Status, s.Written, s.Read = q.own, q.attributes.Client(), resp.Status, resp.Written, resp.Read
	if s.Took == 0 {
		s.Took = time.Since(s.Began)
	}
	q.mw.opts.OnEnd(q.r, s)
	s.Began = time.Time{}
}
