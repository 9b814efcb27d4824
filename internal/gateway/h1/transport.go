// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package h1 sends a request over HTTP/1 and reads its response in the goroutine of
// the caller, where net/http's transport hands both over to goroutines of the
// connection. What is written and how a response is read are net/http's own.
package h1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// most is how many bytes of what came unasked are reported.
const most = 16

// most1xx is how many informational responses may come before the one that counts.
const most1xx = 100

var (
	errClosed   = errors.New("h1: the upstream closed the connection before a response")
	errSwitched = errors.New("h1: the upstream switched to another protocol without a request for it")
	errMany     = fmt.Errorf("h1: the upstream sent more than %d informational responses", most1xx)
)

// Options say how a [Transport] treats its upstream. All are needed.
type Options struct {
	Upstream *url.URL          // of scheme http
	Others   http.RoundTripper // for the requests that are not sent here

	// Dial connects to the upstream. A connection that is none of the system's, and has none
	// below it (NetConn), carries one request. One that has must not read ahead: what it
	// has read would not be seen before the next request.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout is how long that may take.
	DialTimeout time.Duration
	// ResponseTimeout is how long the upstream may take from the end of a request to the
	// header of its response.
	ResponseTimeout time.Duration
	// StallTimeout is how long the upstream may refuse to read a request. It takes up to
	// a sixteenth more.
	StallTimeout time.Duration
	// MaxHeader is how many bytes the header of a response may have.
	MaxHeader int64
	// MaxIdle is how many connections are kept that are not in use, and IdleTimeout how
	// long.
	MaxIdle     int
	IdleTimeout time.Duration
	// Unsolicited is called with the first bytes that came on a connection without a
	// request, or behind the response to one. The connection is closed. It must be safe for
	// concurrent use and keep nothing of them.
	Unsolicited func(came []byte)
}

// Transport is an [http.RoundTripper] to one upstream. A request that cannot be sent
// before its response is read goes to Others: one with a body, with Expect, or that
// asks for another protocol.
type Transport struct {
	opts    Options
	address string // of the upstream, with its port
	plain   bool   // that needs no other spelling
	pool    pool
}

// New returns a Transport.
func New(opts Options) *Transport {
	u := opts.Upstream
	return &Transport{
		opts: opts, address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")),
		plain: u.Scheme == "http" && strings.IndexFunc(u.Host, func(c rune) bool { return c > '~' }) < 0,
	}
}

// RoundTrip sends the request on and returns when the header of the response is
// there.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.takes(r) {
		return t.opts.Others.RoundTrip(r)
	}
	trace := httptrace.ContextClientTrace(r.Context())
	if trace == nil {
		trace = new(httptrace.ClientTrace)
	}
	for fresh := false; ; fresh = true {
		c, err := t.connection(r.Context(), fresh)
		if err != nil {
			return nil, err
		}
		used := c.used
		resp, err := t.exchange(c, r, trace)
		if err == nil || fresh || !used || !mayRepeat(err, r) {
			return resp, err
		}
	}
}

// takes reports whether a request is sent here: one that is written at once, in a
// form that Request.Write does not change.
func (t *Transport) takes(r *http.Request) bool {
	if !t.plain || r.URL.Scheme != "http" || r.URL.Host != t.opts.Upstream.Host {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		return false
	}
	if r.Body != nil && r.Body != http.NoBody || r.ContentLength != 0 || r.TransferEncoding != nil || r.Trailer != nil || r.Close {
		return false
	}
	for name, values := range r.Header {
		if !wire.Token(name) || name == "Upgrade" || name == "Expect" || name == "Connection" {
			return false
		}
		for _, v := range values {
			if !plainValue(v) {
				return false
			}
		}
	}
	return true
}

// plainValue reports whether the value of a field has no character that none may have.
func plainValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// connection returns one that nobody uses, or a new one if it is to be fresh.
func (t *Transport) connection(ctx context.Context, fresh bool) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !fresh {
		if c := t.take(); c != nil {
			return c, nil
		}
	}
	c, err := t.dial(ctx, fresh)
	if err == nil && c.used && !c.quiet() { // it was another's meanwhile
		c.close()
		return t.dial(ctx, true)
	}
	return c, err
}

// lost is why an exchange failed before a byte of the response came.
type lost struct {
	error
	unsent bool // nor was one of the request written
}

// lose returns the error of an exchange that failed so. One that took too long is not
// lost: the upstream may still work on the request.
func lose(err error, unsent bool) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return &lost{err, unsent}
}

func (e *lost) Unwrap() error { return e.error }

// mayRepeat reports whether a request may be sent once more, as the upstream closed a
// connection that was kept: by the rules of net/http.
func mayRepeat(err error, r *http.Request) bool {
	var l *lost
	if !errors.As(err, &l) {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return l.unsent || r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// exchange sends the request over c and reads the header of its response.
func (t *Transport) exchange(c *conn, r *http.Request, trace *httptrace.ClientTrace) (resp *http.Response, err error) {
	x := &trip{of: t, conn: c, ctx: r.Context()}
	x.begin(t.opts.MaxHeader)
	defer func() {
		if resp == nil { // also if a function of trace panics
			x.end(false)
		}
	}()
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.used})
	}
	answer, err := x.roundTrip(t, r, trace)
	if err != nil {
		return nil, x.cause(err)
	}
	c.unbound()
	x.keep = !answer.Close && !x.cut
	if answer.Body == http.NoBody {
		x.end(x.keep)
		return answer, nil
	}
	x.body = answer.Body
	answer.Body = x
	return answer, nil
}

func (x *trip) roundTrip(t *Transport, r *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	c := x.conn
	err := r.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	if err != nil {
		err = lose(fmt.Errorf("h1: write a request: %w", err), c.written == 0)
		if x.cut = c.written > 0; !x.cut || !c.answered() {
			return nil, err
		}
	}
	c.expect(t.opts.ResponseTimeout)
	if _, err := c.in.Peek(1); err != nil {
		if c.ended {
			err = errClosed
		}
		return nil, lose(err, false)
	}
	for range most1xx + 1 {
		resp, err := http.ReadResponse(c.in, r)
		switch {
		case err != nil:
			return nil, fmt.Errorf("h1: read a response: %w", err)
		case resp.StatusCode >= http.StatusOK:
			return resp, nil
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitched
		case resp.StatusCode < http.StatusContinue:
			return nil, fmt.Errorf("h1: read a response: the status is %d", resp.StatusCode)
		}
		if trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
			c.left = t.opts.MaxHeader
		}
	}
	return nil, errMany
}

// CloseIdleConnections closes the connections that are not in use.
func (t *Transport) CloseIdleConnections() { t.closeIdle() }
