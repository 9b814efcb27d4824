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

// outliving sends requests on for which a handler around the Gateway waits. Their
// exchange with the upstream does not end when the client leaves, as the client
// could get around a limit by that.
type outliving struct {
	timeout   time.Duration // of what goes on
	abandoned *Abandoned
	log       *sampledlog.Log
}

// answer is what a transport has returned.
type answer struct {
	response *http.Response
	err      error
}

// roundTrip sends the request on and returns when the header of the response is
// there, or the client has left.
func (o *outliving) roundTrip(p *passage, r *http.Request) (*http.Response, error) {
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
			o.abandoned.unsent.Add(1) // its body broke off with it
		}
		p.follow(client, cancel)
		return a.response, a.err
	case <-client.Done():
	}
	if o.abandon(client, p, p.complete(r), came, cancel) {
		return nil, context.Cause(client)
	}
	cancel(context.Cause(client))
	a := <-came
	return a.response, a.err
}

// complete reports whether the upstream can be sent all of a request without its
// client: there is a connection, and the body was read to its end.
func (p *passage) complete(r *http.Request) bool {
	body := p.x.Body()
	return p.x.Sent() && (r.Body == nil || body == nil || body.Ended())
}

// endedBody is a request's body whose end can be read after its handler has
// returned, when ReverseProxy lets nothing of it be read any more.
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

// send is exchange in a goroutine of its own, in which nobody else recovers.
func (p *passage) send(r *http.Request) (a answer) {
	defer recovered(&a.err)
	a.response, a.err = p.gateway.transport.RoundTrip(r) //nolint:bodyclose // the taker of the answer does
	return a
}

// follow ends the exchange with the client from now on. It does not wait for over.
func (p *passage) follow(client context.Context, cancel context.CancelCauseFunc) {
	stop := context.AfterFunc(client, func() { cancel(context.Cause(client)) })
	p.over = func() {
		stop()
		cancel(nil)
	}
}

// abandon goes on with a request whose client has left. It reports whether it
// does: not where something of the request is missing, too many go on, or the
// gateway ends.
func (o *outliving) abandon(client context.Context, p *passage, complete bool, came <-chan answer, cancel context.CancelCauseFunc) bool {
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
	// request, which one of HTTP/2 may put off.
	late := time.AfterFunc(o.timeout, func() { cancel(context.DeadlineExceeded) })
	go func() {
		defer late.Stop()
		defer stop()
		defer o.abandoned.leave(place)
		defer cancel(nil) // the body is not wanted
		if err := o.finish(<-came, settle, observed); err != nil {
			o.log.Error(ctx, "cannot settle a request whose client has left", err)
		}
	}()
	return true
}

// finish settles an abandoned request by its result.
func (o *outliving) finish(a answer, settle func(exchange.Outcome), observed func(status int, err error) *exchange.Upstream) (err error) {
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
	// An error says that the connection is broken, and nobody wants what follows.
	defer func() { _ = a.response.Body.Close() }()
	o.abandoned.seen.Add(1)
	settle(exchange.Outcome{
		Status: a.response.StatusCode, Header: func(name string) []string { return a.response.Header[name] },
		Unseen:   a.response.StatusCode == http.StatusGatewayTimeout, // nor has the upstream seen one
		Upstream: observed(a.response.StatusCode, nil),
	})
	return nil
}

// gaveUp reports whether an exchange ended by the gateway's own will, so that the
// upstream may still work on the request.
func gaveUp(err error) bool {
	return isTimeout(err) || errors.Is(err, context.Canceled) || errors.Is(err, errLongest) || errors.Is(err, http.ErrServerClosed)
}

// recovered turns a panic into an error: in a goroutine without a handler's it
// would end the program. It must be deferred.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("gateway: panic: %v\n%s", v, debug.Stack())
	}
}
