// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// errLongest is why the context of a request has ended that took too long.
const errLongest timeoutError = "gateway: the request takes longer than any may; see longest_request"

// timeoutError says what took too long.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// Timeout says what kind of error it is to callers that do not know it.
func (timeoutError) Timeout() bool { return true }

// Temporary is of [net.Error].
func (timeoutError) Temporary() bool { return false }

// longest ends a request that takes longer than it may. A nil longest does not.
type longest struct {
	w        http.ResponseWriter
	cancel   context.CancelCauseFunc
	ends     time.Time
	reported func()

	mu    sync.Mutex
	timer *time.Timer // nil: it may go on, as far as is known
	began bool        // the upstream's response has
	over  bool        // nothing is to be ended any more
	cut   bool
}

// bound has a request end when it has taken for as long as it may since it came. One
// of gRPC is waited for until the upstream's answer says whether it is: streams
// from a client are answered at their end.
func (g *Gateway) bound(p *proxyCall) {
	if g.longest == 0 {
		return
	}
	came := exchange.Came(p.w)
	if came.IsZero() {
		came = time.Now()
	}
	ctx, cancel := context.WithCancelCause(p.request.Context())
	p.longest = &longest{w: p.w, cancel: cancel, ends: came.Add(g.longest), reported: g.observeLongest}
	p.request = p.request.WithContext(ctx)
	if !(g.rpc && p.request.ProtoMajor > 1 && wire.RPC(p.request.Header)) {
		p.longest.start()
	}
}

// observeLongest reports a request that was ended.
func (g *Gateway) observeLongest() {
	if g.onLongest != nil {
		g.onLongest()
	}
	g.log.Warn(context.Background(), "a request is cut off", errLongest)
}

// start bounds the request. One that has no time left is not sent.
func (l *longest) start() {
	if !time.Now().Before(l.ends) {
		l.expire()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil && !l.over {
		l.timer = time.AfterFunc(time.Until(l.ends), l.expire)
	}
}

// expire ends the request: what waits for the upstream, for the client's body, or
// for the client to take the response.
func (l *longest) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over, l.cut = true, true
	l.reported()
	l.cancel(errLongest)
	exchange.CutBody(l.w)
	if l.began {
		exchange.CutResponse(l.w)
	}
}

// answered lets a response take its time which is a stream, and bounds that to what
// only looked like a request for one. What switches protocol is one.
func (l *longest) answered(resp *http.Response, h2 bool) {
	if !streams(resp, h2) {
		l.start()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// answered is called for each response that an upstream begins.
func (p *proxyCall) answered(resp *http.Response) error {
	p.longest.answered(resp, p.request.ProtoMajor > 1)
	return nil
}

// streams reports whether a response may go on for as long as there is something to
// say: an upstream says so, never a client.
func streams(resp *http.Response, h2 bool) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols || h2 && wire.RPC(resp.Header) {
		return true
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// begin says that the upstream's response is passed on from now on.
func (l *longest) begin() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = true
	if l.cut {
		exchange.CutResponse(l.w)
	}
}

// end says that nothing of the request is left to be ended. Nothing is cut off once
// it has returned.
func (l *longest) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	l.cancel(nil)
}

// stop ends the bound. l.mu must be held.
func (l *longest) stop() {
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// follow has an exchange end, which goes on without its client, when the request
// would have. The function that it returns takes that back.
func (l *longest) follow(cancel context.CancelCauseFunc) (stop func() bool) {
	if l == nil {
		return func() bool { return true }
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		return func() bool { return true }
	}
	return time.AfterFunc(time.Until(l.ends), func() {
		l.reported()
		cancel(errLongest)
	}).Stop
}

// tookTooLong reports whether a request was ended for the time that it took.
func tookTooLong(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLongest) }
