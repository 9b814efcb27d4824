// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/sampledlog"
)

// detached forwards the requests whose response an outer handler awaits. Their exchange with
// the upstream continues when the client leaves: otherwise clients could avoid limits by
// leaving.
type detached struct {
	timeout   time.Duration // of an exchange without its client
	abandoned *Abandoned
	log       *sampledlog.Log
}

// answer is the result of a transport.
type answer struct {
	response *http.Response
	err      error
}

// roundTrip sends the request on. It returns when the header of the response has arrived
// or the client has left.
func (o *detached) roundTrip(p *proxyCall, r *http.Request) (*http.Response, error) {
	client := r.Context()
	if client.Err() != nil {
		return p.gateway.transport.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(client))
	out := r.WithContext(ctx)
	if body := p.x.Body(); body != nil && out.Body != nil {
		out.Body = &endedBody{out.Body, body}
	}
	came := make(chan answer, 1)
	go func() { came <- p.send(out) }()
	select {
	case a := <-came:
		if a.err != nil && client.Err() != nil && !tookTooLong(client) && !p.complete(r) {
			o.abandoned.unsent.Add(1) // the client broke off its body
		}
		p.follow(client, cancel)
		return a.response, a.err
	case <-client.Done():
	}
	if o.takeOver(client, p, p.complete(r), came, cancel) {
		return nil, context.Cause(client)
	}
	cancel(context.Cause(client))
	a := <-came
	return a.response, a.err
}

// complete reports whether the gateway can send all of a request without its client: it
// has a connection and has read the body to its end.
func (p *proxyCall) complete(r *http.Request) bool {
	body := p.x.Body()
	return p.x.Sent() && (r.Body == nil || body == nil || body.Ended())
}

// endedBody is a request's body whose end can still be read after its handler has
// returned.
type endedBody struct {
	io.ReadCloser
	body *exchange.Body
}

func (b *endedBody) Read(p []byte) (int, error) {
	if b.body.Ended() {
		return 0, io.EOF
	}
	return b.ReadCloser.Read(p)
}

// send calls the transport in its own goroutine, where only send itself can recover.
func (p *proxyCall) send(r *http.Request) (a answer) {
	defer recovered(&a.err)
	a.response, a.err = p.gateway.transport.RoundTrip(r) //nolint:bodyclose // the receiver of the answer closes it
	return a
}

// follow ends the exchange when the client leaves.
func (p *proxyCall) follow(client context.Context, cancel context.CancelCauseFunc) {
	stop := context.AfterFunc(client, func() { cancel(context.Cause(client)) })
	p.endDetached = func() {
		stop()
		cancel(nil)
	}
}

// takeOver continues a request whose client has left. It reports false if a part of the
// request is missing, too many such requests run, or the gateway ends.
func (o *detached) takeOver(client context.Context, p *proxyCall, complete bool, came <-chan answer, cancel context.CancelCauseFunc) bool {
	if errors.Is(context.Cause(client), http.ErrServerClosed) || tookTooLong(client) {
		return false
	}
	if !complete {
		o.abandoned.unsent.Add(1)
		return false
	}
	place, err := o.abandoned.enter(exchange.Keys(p.w), cancel)
	if err != nil {
		o.abandoned.full.Add(1)
		o.log.Warn(client, "a request is cancelled whose client has left: it is charged in full, and its slot in flight stays until it expires", err)
		return false
	}
	settle, observed := exchange.TakeOver(p.w), p.upstream.abandoned()
	ctx, stop := context.WithoutCancel(client), p.longest.follow(cancel)
	// The transport's own timeout begins when the upstream has taken all of the
	// request, which an upstream of HTTP/2 may delay.
	late := time.AfterFunc(o.timeout, func() { cancel(context.DeadlineExceeded) })
	go func() {
		defer late.Stop()
		defer stop()
		defer o.abandoned.leave(place)
		defer cancel(nil) // nobody reads the body
		if err := o.settle(<-came, settle, observed); err != nil {
			o.log.Error(ctx, "cannot settle a request whose client has left", err)
		}
	}()
	return true
}

// settle settles a request without its client by its result.
func (o *detached) settle(a answer, settle func(exchange.Outcome), observed func(status int, err error) *exchange.Upstream) (err error) {
	defer recovered(&err)
	if a.err != nil {
		o.abandoned.lost.Add(1)
		status, running := http.StatusBadGateway, gaveUp(a.err) && !notDialled(a.err)
		if running {
			status = http.StatusGatewayTimeout
		}
		settle(exchange.Outcome{Status: status, Unseen: !notDialled(a.err), Running: running, Upstream: observed(0, a.err)})
		return nil
	}
	// An error means that the connection is broken, and nobody reads it further.
	defer func() { _ = a.response.Body.Close() }()
	o.abandoned.seen.Add(1)
	settle(exchange.Outcome{
		Status: a.response.StatusCode, Header: func(name string) []string { return a.response.Header[name] },
		Unseen:   a.response.StatusCode == http.StatusGatewayTimeout, // another gateway gave up: its upstream may still have run the request
		Upstream: observed(a.response.StatusCode, nil),
	})
	return nil
}

// gaveUp reports whether the gateway ended an exchange, so that the upstream may still
// work on the request.
func gaveUp(err error) bool {
	return isTimeout(err) || errors.Is(err, context.Canceled) || errors.Is(err, errLongest) || errors.Is(err, http.ErrServerClosed)
}

// recovered turns a panic into an error, as a panic outside a handler's goroutine ends
// the program. It must be deferred.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("gateway: panic: %v\n%s", v, debug.Stack())
	}
}
