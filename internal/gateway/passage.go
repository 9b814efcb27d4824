// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"net/http/httptrace"
	"slices"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// passage is one request and its response on their way through a Gateway. It
// keeps what ReverseProxy loses: whose fault a broken body was, and the fields
// that handlers around the Gateway have set.
type passage struct {
	gateway  *Gateway
	w        http.ResponseWriter
	x        *exchange.Exchange
	request  *http.Request
	around   []field
	informed bool     // an informational response was passed on
	began    bool     // the response has
	whole    bool     // and it was passed on to its end
	outlives bool     // its client, if need be: a handler waits for the response
	over     func()   // lets go of an exchange that may outlive its client; nil: there is none
	longest  *longest // nil: it may take any time
	upstream observed
}

// field is a header field.
type field struct {
	name   string
	values []string
}

func (g *Gateway) newPassage(w http.ResponseWriter, r *http.Request) *passage {
	x, w := exchange.Begin(w, r)
	p := &passage{gateway: g, w: w, x: x, request: x.Watch(r), outlives: exchange.Settles(w)}
	for name, values := range w.Header() {
		p.around = append(p.around, field{name, slices.Clip(values)})
	}
	x.OnHeader = p.header
	return p
}

// RoundTrip sends the request on and returns when the header of the response is there,
// or the client has left.
func (p *passage) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn == nil {
		trace.GotConn = p.connected // ReverseProxy has made it for this request alone
	} else {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: p.connected}))
	}
	if p.outlives {
		return p.gateway.outliving.roundTrip(p, r)
	}
	return p.gateway.transport.RoundTrip(r)
}

// connected is called when there is a connection for the request, by the goroutine
// that exchanges it.
func (p *passage) connected(httptrace.GotConnInfo) { p.x.Connected() }

// header sets the fields again that ReverseProxy clears when it has passed on an
// informational response. A response that comes before the end of the request's
// body is the last on its connection: net/http cannot serve another one behind a
// body that was left half read while streaming both ways.
func (p *passage) header(status int) {
	if status < http.StatusOK {
		if status == http.StatusSwitchingProtocols {
			p.upstream.answered(status)
		}
		p.informed = true
		if p.request.ProtoMajor > 1 {
			// Where a client resets its stream meanwhile, net/http's server goes on
			// reading the fields, while ReverseProxy clears them. With this one it
			// takes a copy, and leaves that out.
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
		wire.NotifyUnseen(p.w) // the upstream has not seen one either
	}
	h := p.w.Header()
	if p.request.ProtoMajor > 1 && wire.RPC(h) && !p.x.Failed {
		p.x.Streams()
		if h["Grpc-Status"] != nil {
			p.x.Bare()
		}
	}
	if p.informed {
		for _, f := range p.around {
			if _, ok := h[f.name]; !ok {
				h[f.name] = f.values
			}
		}
	}
	if body := p.x.Body(); body != nil && !body.Ended() && p.request.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
}

// end is what is left to do when the response was passed on, or broke off.
func (p *passage) end() {
	p.upstream.end(p)
	p.flushBroken()
	if p.over != nil {
		p.over()
	}
	p.longest.end()
}

// flushBroken sends what has come of a response that the upstream broke off, for
// which ReverseProxy panics: so the client knows that there was one.
func (p *passage) flushBroken() {
	if p.began && !p.whole {
		// An error means that the client is gone, too.
		_ = http.NewResponseController(p.w).Flush()
	}
}
