// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

// errBrokenOff is the error of a response that ended before its last byte.
var errBrokenOff = errors.New("gateway: the response broke off")

// observed records the outcome of a request at the upstream if a handler around the Gateway
// observes it.
type observed struct {
	in     *exchange.Upstream // nil if nobody observes it
	began  time.Time
	before int64 // bytes written before
}

func (o *observed) begin(p *proxyCall, url string) {
	if o.in = exchange.Observed(p.w); o.in == nil {
		return
	}
	o.in.URL, o.in.Status, o.in.Err = url, 0, nil
	o.began, o.before = time.Now(), p.x.Written()
}

// answered records the status of the upstream's response.
func (o *observed) answered(status int) {
	if o.in != nil {
		o.in.Status, o.in.Header = status, time.Since(o.began)
	}
}

// end records how the exchange ended.
func (o *observed) end(p *proxyCall) {
	if o.in == nil {
		return
	}
	o.in.Took = time.Since(o.began)
	if p.x.Failed {
		return // the bytes written are not the upstream's
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

// abandoned returns the function that returns the outcome once the response is there, for a
// request whose client has left. Handlers that have not taken over the settlement see the
// client's leaving as the outcome.
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
