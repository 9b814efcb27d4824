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

// errLongest is the cause of the context of a request that took too long.
const errLongest timeoutError = "gateway: the request takes longer than longest_request allows"

// timeoutError is an error of a request that took too long.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// Timeout returns true: see [net.Error].
func (timeoutError) Timeout() bool { return true }

// Temporary returns false: see [net.Error].
func (timeoutError) Temporary() bool { return false }

// longest ends a request at its bound of time. A nil longest does nothing.
type longest struct {
	w        http.ResponseWriter
	cancel   context.CancelCauseFunc
	ends     time.Time
	reported func()

	mu    sync.Mutex
	timer *time.Timer // nil: no bound applies so far
	began bool        // the upstream's response has begun
	over  bool        // nothing is left to end
	cut   bool
}

// bound starts the bound of time of a request, from its arrival. For gRPC the bound is
// deferred until the upstream's response shows whether it is gRPC: a client's stream is
// answered at its end.
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

// start bounds the request. A request without time left is not sent.
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

// expire ends the request: waits for the upstream, for the client's body and for the client's
// reading of the response.
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

// answered removes the bound for a response that is a stream, a switch of protocol included,
// and starts it for one that only looked like a stream by its request.
func (l *longest) answered(resp *http.Response, h2 bool) {
	if !streams(resp, h2) {
		l.start()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// streams reports whether a response may take any time. Only the upstream decides that, never
// a client.
func streams(resp *http.Response, h2 bool) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols || h2 && wire.RPC(resp.Header) {
		return true
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// begin records that the upstream's response is being passed on.
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

// end ends the bound. Nothing is cut off after it has returned.
func (l *longest) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	l.cancel(nil)
}

// stop stops the timer. The caller holds l.mu.
func (l *longest) stop() {
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// follow calls cancel when the request's time is up, for an exchange that continues without
// its client. The returned function revokes that.
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

// tookTooLong reports whether a request was ended by its bound of time.
func tookTooLong(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLongest) }

// WithLeastRate returns a handler that closes stalled connections: those of a client that for
// d sends no byte of its request's body, or takes none of the response. A body may take any
// time while it progresses, and a handler may be silent: unlike the timeouts of an
// [http.Server], this suits streams. It must wrap every other handler, in a server without
// ReadTimeout and WriteTimeout. Connections that switch protocol have no bound. A server of
// HTTP/2 also needs a WriteByteTimeout: a client that reads nothing delays the frame that ends
// a stream, too.
//
// Bytes returns the least rate of bodies, in bytes a second, and is called for each request. A
// body may be waited for 10 s, plus the time that the bytes received take at that rate; no more
// than d of this time is kept. A slower body is answered with 408. Zero is no bound. Time in
// which the body is not read does not count, and gRPC, whose bodies are messages, has no bound.
// Slow is called for each body cut off for its rate, by any goroutine; it must be quick, and is
// required unless bytes returns 0.
func WithLeastRate(next http.Handler, d time.Duration, bytes func() int64, slow func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, shared := exchange.Begin(w, r)
		r = x.Watch(r)
		x.Stall(d, r)
		if x.Body() != nil && !(r.ProtoMajor > 1 && wire.RPC(r.Header)) {
			if least := bytes(); least > 0 {
				x.LeastRate(least, slow)
			}
		}
		defer x.Finish(w)
		next.ServeHTTP(shared, r)
		if body := x.Body(); body != nil && !body.Ended() && x.Status() != http.StatusSwitchingProtocols {
			answeredEarly(r)
		}
	})
}
