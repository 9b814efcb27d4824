// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/policy"
)

// settles returns the settlement for a handler that continues the request when its client
// has left, as a Gateway does.
func (q *Request) settles() *exchange.Settlement {
	if q.settlement.Settle == nil {
		q.settlement = exchange.Settlement{Settle: q.settleLater, Presume: q.presume, Keys: q.keys}
	}
	return &q.settlement
}

// settleLater settles the request after its handler has returned. Of the exchange it may read
// only the counts.
func (q *Request) settleLater(o exchange.Outcome) {
	resp := policy.Response{
		Status: o.Status, Header: o.Header, Unseen: o.Unseen, Running: o.Running,
		Written: q.x.Written(), Read: q.x.Read(),
	}
	q.settle(resp)
	resp.Status = statusClientGone
	q.summary.Upstream, q.summary.Broken = o.Upstream, true
	q.over(&resp)
}

// presume charges the units that depend on the response: see [evaluate.Call.Presume].
func (q *Request) presume() { q.call.Presume(q.r.Context()) }

// keys yields the keys that wait for the response. If all budgets are shared, it yields the
// client's network, so that one client cannot take all places.
func (q *Request) keys(yield func(string) bool) {
	own := false
	for key := range q.call.Evaluated.Awaiting() {
		if own = true; !yield(key) {
			return
		}
	}
	if !own {
		yield("client " + q.mw.clients.Group(q.attributes.Client()))
	}
}
