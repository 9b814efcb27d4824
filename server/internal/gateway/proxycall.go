// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// proxyCall is one request and its response on their way through a Gateway. It keeps
// what ReverseProxy loses: which side broke a body off, and the fields that outer
// handlers have set.
type proxyCall struct {
	gateway     *Gateway
	w           http.ResponseWriter
	x           *exchange.Exchange
	request     *http.Request
	outerFields []field
	informed    bool     // an informational response has begun
	began       bool     // the response has begun
	whole       bool     // the response was passed on to its end
	detachable  bool     // the exchange continues without its client, as an outer handler awaits the response
	endDetached func()   // nil: the exchange is not detachable
	longest     *longest // nil: without a bound
	upstream    observed
}

// field is a header field.
type field struct {
	name   string
	values []string
}

func (g *Gateway) newProxyCall(w http.ResponseWriter, r *http.Request) *proxyCall {
	x, w := exchange.Begin(w, r)
	p := &proxyCall{gateway: g, w: w, x: x, request: x.Watch(r), detachable: exchange.Settles(w)}
	for name, values := range w.Header() {
		p.outerFields = append(p.outerFields, field{name, slices.Clip(values)})
	}
	x.OnHeader = p.header
	return p
}

// RoundTrip sends the request on. It returns when the header of the response has arrived
// or the client has left.
func (p *proxyCall) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn == nil {
		trace.GotConn = p.connected // ReverseProxy made it for this request
	} else {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: p.connected}))
	}
	var resp *http.Response
	var err error
	if p.detachable {
		resp, err = p.gateway.detached.roundTrip(p, r)
	} else {
		resp, err = p.gateway.transport.RoundTrip(r)
	}
	if err == nil {
		boundHalfOpen(resp)
	}
	return resp, err
}

// connected is called when there is a connection for the request, by the goroutine
// that exchanges it.
func (p *proxyCall) connected(httptrace.GotConnInfo) { p.x.Connected() }

// header restores the fields that ReverseProxy clears after an informational response. A
// response that begins before the request's body has ended is the last on its connection:
// net/http cannot serve another request after a body that was left half read while streaming
// both ways.
func (p *proxyCall) header(status int) {
	if status < http.StatusOK {
		if status == http.StatusSwitchingProtocols {
			p.upstream.answered(status)
		}
		p.informed = true
		if p.request.ProtoMajor > 1 {
			// If a client resets its stream meanwhile, net/http's server still reads the
			// fields while ReverseProxy clears them. With this field the server reads a copy,
			// without the field.
			p.w.Header()["Content-Length"] = nil
		}
		return
	}
	p.began = true
	if !p.x.Failed {
		p.upstream.answered(status)
		p.longest.begin()
	}
	if status == http.StatusGatewayTimeout && !p.x.Failed {
		wire.NotifyUnseen(p.w) // another gateway gave up: its upstream may still have run the request
	}
	h := p.w.Header()
	if p.request.ProtoMajor > 1 && wire.RPC(h) && !p.x.Failed {
		p.x.Streams()
		if h["Grpc-Status"] != nil {
			p.x.Bare()
		}
	}
	if p.informed {
		for _, f := range p.outerFields {
			if _, ok := h[f.name]; !ok {
				h[f.name] = f.values
			}
		}
	}
	if body := p.x.Body(); body != nil && !body.Ended() && p.request.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
}

// end runs when the response was passed on or broke off.
func (p *proxyCall) end() {
	p.upstream.end(p)
	if p.began && !p.whole {
		// The upstream broke off the response, so that ReverseProxy panics. The flushed part
		// shows the client that there was a response. An error means that the client is gone,
		// too.
		_ = http.NewResponseController(p.w).Flush()
	}
	if p.endDetached != nil {
		p.endDetached()
	}
	p.longest.end()
}

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
