// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

// errBrokenOff is why a response that has begun did not come to its end.
var errBrokenOff = errors.New("gateway: the response broke off")

// observed notes the outcome of a request at the upstream, where a handler around
// the Gateway wants to know.
type observed struct {
	in     *exchange.Upstream // nil: nobody does
	began  time.Time
	before int64 // bytes that had been written
}

func (o *observed) begin(p *proxyCall, url string) {
	if o.in = exchange.Observed(p.w); o.in == nil {
		return
	}
	o.in.URL, o.in.Status, o.in.Err = url, 0, nil
	o.began, o.before = time.Now(), p.x.Written()
}

// answered notes the status of the upstream's response.
func (o *observed) answered(status int) {
	if o.in != nil {
		o.in.Status, o.in.Header = status, time.Since(o.began)
	}
}

// end notes how the exchange ended.
func (o *observed) end(p *proxyCall) {
	if o.in == nil {
		return
	}
	o.in.Took = time.Since(o.began)
	if p.x.Failed {
		return // and what was written is not the upstream's
	}
	o.in.Bytes = p.x.Written() - o.before
	switch err := context.Cause(p.request.Context()); {
	case p.whole, o.in.Err != nil:
	case err != nil:
		o.in.Err = err
	default:
		o.in.Err = errBrokenOff
	}
}

// abandoned returns what is to be noted when the response is there to a request whose
// client has left. The handlers that have not taken that over are notified of the leave.
func (o *observed) abandoned() func(status int, err error) *exchange.Upstream {
	if o.in == nil {
		return func(int, error) *exchange.Upstream { return nil }
	}
	began, noted := o.began, *o.in
	return func(status int, err error) *exchange.Upstream {
		noted.Status, noted.Err, noted.Took = status, err, time.Since(began)
		if err == nil {
			noted.Header = noted.Took
		}
		return &noted
	}
}
