// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// settleTimeout is how long putting a cost right may take. It does not end
// with the request: a client that hangs up has still had what it had.
const settleTimeout = time.Second

// run passes the request on and puts its cost right afterwards, also if the
// handler panics.
func (m *Middleware) run(w http.ResponseWriter, r *http.Request, next http.Handler, c *charged, d sluice.Decision) {
	settles, reads := false, false
	for i := range c.n {
		rule := &m.rules[c.rules[i]]
		settles = settles || rule.settles
		reads = reads || rule.Cost.After != nil
	}
	if !settles {
		next.ServeHTTP(w, r)
		return
	}
	count := &counter{ResponseWriter: w, head: r.Method == http.MethodHead}
	seen := r
	var body *countingBody
	if reads && r.Body != nil && r.Body != http.NoBody {
		copied := *r // a handler must not change its request
		body = &countingBody{ReadCloser: r.Body}
		copied.Body = body
		seen = &copied
	}
	returned := false
	defer func() {
		resp := count.response(returned)
		if body != nil {
			resp.Read = body.read.Load()
		}
		m.settle(r, m.corrections(r, c, d, resp))
	}()
	next.ServeHTTP(count.writer(), seen)
	returned = true
}

// corrections returns what puts the costs right.
func (m *Middleware) corrections(r *http.Request, c *charged, d sluice.Decision, resp Response) []sluice.Request {
	var reqs []sluice.Request
	for i := range c.n {
		rule, charge := &m.rules[c.rules[i]], c.charge(i)
		actual := int64(-1)
		if rule.RefundOn != nil && rule.RefundOn(resp.Status) {
			actual = 0
		} else if rule.Cost.After != nil {
			actual = min(rule.Cost.After(r, resp), sluice.MaxQuota)
		}
		taken := charge.Cost
		switch {
		case actual < 0 || actual == taken:
		case actual < taken:
			charge.Cost, charge.Held = taken-actual, taken
			reqs = append(reqs, sluice.Request{Op: sluice.OpRefund, Charge: charge, At: d.At, Due: d.Due})
		default:
			charge.Cost = actual - taken
			reqs = append(reqs, sluice.Request{Op: sluice.OpCharge, Charge: charge})
		}
	}
	return reqs
}

// settle asks the store for independent corrections, in one call.
func (m *Middleware) settle(r *http.Request, reqs []sluice.Request) {
	if len(reqs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settleTimeout)
	defer cancel()
	if len(reqs) == 1 {
		if _, err := m.opts.Store.Take(ctx, reqs[0]); err != nil {
			m.report(r, err)
		}
		return
	}
	results := make([]sluice.Result, len(reqs))
	if err := m.opts.Store.TakeBatch(ctx, reqs, results); err != nil {
		m.report(r, err)
		return
	}
	for _, res := range results {
		if res.Err != nil {
			m.report(r, res.Err)
		}
	}
}

// countingBody counts what is read of a request's body. Whoever reads it may go
// on after the handler has returned, as the transport of a reverse proxy does.
type countingBody struct {
	io.ReadCloser
	read atomic.Int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}
