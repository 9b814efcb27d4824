// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package exchange wraps an HTTP response and its request's body once for all handlers. Nested
// handlers share the wrapper: each calls [Begin] or [Count], and the innermost passes on one
// request, one writer and one body.
package exchange

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// Exchange is a request and its response within the handlers of one server. It belongs to the
// handler's goroutine, except for its body and a connection that has switched protocol.
type Exchange struct {
	below http.ResponseWriter
	outer *Exchange                // the next one below, or nil
	made  *http.ResponseController // of below; made on first use
	// OnHeader, if not nil, is called before the status of the response, or of an
	// informational one, is sent.
	OnHeader func(status int)
	// Failed means that the response is a handler's own, in place of an upstream's.
	Failed bool

	// Settlement, if not nil, is the work of a handler once the response is known.
	Settlement *Settlement

	upstream *Upstream // nil if nobody observes it
	noted    Upstream  // memory for upstream

	// request is the one copy that handlers may change, made on first need; nil while the
	// original is used.
	request          *http.Request
	response, upload *Pace
	sent             atomic.Bool // a connection to an upstream was found for the request
	body             Body
	meter            meter // of the body
	stall            stall
	came             time.Time // noted by Stall
	kept             []field
	status           int
	counted          bool // taken by Count
	carrier          bool // another Exchange wraps it
	head             bool // no part of the response's body is sent
	bare             bool // the response has no body
	lost             bool // the upstream may have acted on the request, but its response was not seen
	running          bool // the upstream may still work on the request
	// written counts the response's body; switched counts the bytes read after a switch of
	// protocol, beside those of the request's body.
	written, switched atomic.Int64
}

// sharer is a writer that shares its Exchange.
type sharer interface{ shared() *Exchange }

func (x *Exchange) shared() *Exchange { return x }

// Begin returns the Exchange of w, or a new one, and the writer for the next handler. A
// request with another body than that of w's Exchange gets a new one.
func Begin(w http.ResponseWriter, r *http.Request) (*Exchange, http.ResponseWriter) {
	if x := Of(w); x != nil && x.carries(r) {
		return x, w
	}
	return begin(w, r)
}

func begin(w http.ResponseWriter, r *http.Request) (*Exchange, http.ResponseWriter) {
	outer := nearest(w)
	if outer != nil {
		outer.carrier = true
	}
	x, ok := unused.Get().(*Exchange)
	if !ok {
		x = new(Exchange)
	}
	x.below, x.outer, x.head, x.stall.x = w, outer, r.Method == http.MethodHead, x
	return x, x.view()
}

// unused holds Exchanges without an owner, each zeroed.
var unused sync.Pool

// Finish bounds the server's reads after the return of the handler that got x from Begin with
// w. If no outer handler has begun x, it must not be used after Finish.
func (x *Exchange) Finish(w http.ResponseWriter) {
	x.stall.finish()
	if Of(w) == nil && x.alone() {
		*x = Exchange{}
		unused.Put(x)
	}
}

// alone reports whether nothing uses the Exchange after its handlers have returned: the
// request had no body, nothing continues after its response, and no other Exchange wraps this
// one.
func (x *Exchange) alone() bool {
	return x.body.source == nil && x.Settlement == nil && !x.stall.switched && !x.carrier
}

// Count is Begin for a handler that counts or slows bytes until it returns. Each gets an
// Exchange of its own, as the counts of an outer one include other calls of the inner handler.
func Count(w http.ResponseWriter, r *http.Request) (*Exchange, http.ResponseWriter) {
	x, next := Begin(w, r)
	if x.counted {
		x, next = begin(w, r)
	}
	x.counted = true
	return x, next
}

// Of returns the Exchange of w, or nil.
func Of(w http.ResponseWriter) *Exchange {
	if s, ok := w.(sharer); ok {
		return s.shared()
	}
	return nil
}

// carries reports whether the request's body is that of the Exchange, or may become it.
func (x *Exchange) carries(r *http.Request) bool {
	return x.body.source == nil || r.Body == io.ReadCloser(&x.body)
}

// Watch replaces the request's body, if there is one, by that of the Exchange.
func (x *Exchange) Watch(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || x.body.source != nil {
		return r // no body, or already replaced
	}
	x.body.x, x.body.timed = x, timed{r.Body, &x.stall}
	x.body.source = &x.body.timed
	r = x.Own(r)
	r.Body = &x.body
	return r
}

// Connected records that a connection to an upstream was found for the request: see
// [Exchange.Sent].
func (x *Exchange) Connected() { x.sent.Store(true) }

// Sent reports whether a connection to an upstream was found for the request.
func (x *Exchange) Sent() bool { return x.sent.Load() }

// Own returns the copy of r that handlers may change, which it makes on first need.
func (x *Exchange) Own(r *http.Request) *http.Request {
	if r != x.request {
		copied := *r
		x.request = &copied
	}
	return x.request
}

// Body returns the request's body, or nil if it has none.
func (x *Exchange) Body() *Body {
	if x.body.source == nil {
		return nil
	}
	return &x.body
}

// Status returns the status of the response, or 0 before there is one.
func (x *Exchange) Status() int { return x.status }

// Written returns the number of bytes sent of the response's body and of a connection that has
// switched protocol.
func (x *Exchange) Written() int64 { return x.written.Load() }

// Read returns the number of bytes read of the request's body and of a connection that has
// switched protocol.
func (x *Exchange) Read() int64 { return x.body.read.Load() + x.switched.Load() }

var (
	_ wire.Observer = (*Exchange)(nil)
	_ wire.Watcher  = (*Exchange)(nil)
)

// Unseen records that an upstream may have acted on the request, although its response was not
// seen.
func (x *Exchange) Unseen() { x.lost = true }

// Running records that an upstream may continue to work on the request after a handler gave it
// up.
func (x *Exchange) Running() { x.running = true }

// Runs reports whether an upstream may still work on the request.
func (x *Exchange) Runs() bool { return x.running }

// Lost reports whether an upstream may have acted on the request without a response that was
// seen. It is also true if no handler has written a response, for example without the writer.
func (x *Exchange) Lost() bool { return x.lost || x.status == 0 }

// Slow slows the response and the upload down, in addition to any Pace before. A nil Pace does
// not slow down.
func (x *Exchange) Slow(response, upload *Pace) {
	x.response, x.upload = x.response.beside(response), x.upload.beside(upload)
}

// setWriteDeadline sets the write deadline of the response.
func (x *Exchange) setWriteDeadline(t time.Time) error {
	if w, ok := x.below.(interface{ SetWriteDeadline(time.Time) error }); ok {
		return w.SetWriteDeadline(t) // this allocates nothing
	}
	return x.control().SetWriteDeadline(t)
}

func (x *Exchange) control() *http.ResponseController {
	if x.made == nil {
		x.made = http.NewResponseController(x.below)
	}
	return x.made
}

// Stall bounds how long the client may leave a body or the response without progress.
func (x *Exchange) Stall(d time.Duration, r *http.Request) {
	x.came = time.Now()
	x.stall.begin(d, r)
}

// Streams lets the client be silent for any time. It is for protocols in which both sides send
// at any time, once the response has begun.
func (x *Exchange) Streams() { x.stall.unboundReads() }

// Bare means that the response consists of its header. A flush before that is known would send
// the header without its end.
func (x *Exchange) Bare() { x.bare = true }

// LeastRate bounds how slowly the client may send a body that is being read. A body may keep
// the reader waiting for 10 s, plus the time that the received bytes take at that rate. It
// must be called after Stall, whose bound is for a single wait. The goroutine that
// reads calls slow when a body is cut off for its rate.
func (x *Exchange) LeastRate(bytes int64, slow func()) {
	x.stall.rate = rate{least: bytes, left: bodyGrace, slow: slow}
}

// Header returns the header of the response.
func (x *Exchange) Header() http.Header { return x.below.Header() }

// Unwrap returns the writer below, for [http.ResponseController].
func (x *Exchange) Unwrap() http.ResponseWriter { return x.below }

// WriteHeader sends the status.
func (x *Exchange) WriteHeader(status int) {
	if x.meter.over || (status >= http.StatusOK || status == http.StatusSwitchingProtocols) && x.Refused() {
		return
	}
	// Informational responses precede the final one, but 101 ends the exchange.
	if x.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		x.status = status
	}
	if x.OnHeader != nil {
		x.OnHeader(status)
	}
	if status >= http.StatusOK {
		x.keep()
	}
	if x.stall.d > 0 && status < http.StatusOK { // others are sent with the body
		// An error means that the connection is gone; Write will return it.
		_ = x.stall.write()
		defer x.stall.clearWriteDeadline()
	}
	x.below.WriteHeader(status)
}

// defaultStatus sets the status 200 if no handler has set one.
func (x *Exchange) defaultStatus() {
	if x.status == 0 {
		x.status = http.StatusOK
		if x.OnHeader != nil {
			x.OnHeader(http.StatusOK)
		}
		x.keep()
	}
}

// hijack takes over the connection. Bytes on it are counted and slowed down.
func (x *Exchange) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := wire.Hijack(x.below)
	if err != nil {
		return conn, rw, err
	}
	x.stall.switched = true // it has no bounds of time from now on
	if x.status == 0 {
		x.status = http.StatusSwitchingProtocols
		if x.OnHeader != nil {
			x.OnHeader(x.status)
		}
	}
	c := &switched{Conn: conn, x: x}
	return c, bufio.NewReadWriter(bufio.NewReader(c), rw.Writer), nil
}

// switched is a connection that has switched protocol: its reads count as the request's body,
// and its writes as the response's.
type switched struct {
	net.Conn
	x *Exchange
}

func (c *switched) Read(p []byte) (int, error) {
	return c.x.upload.read(p, &c.x.switched, c.Conn.Read)
}

func (c *switched) Write(p []byte) (int, error) {
	return c.x.response.write(p, func(p []byte) (int, error) {
		n, err := c.Conn.Write(p)
		c.x.written.Add(int64(n))
		return n, err
	})
}

// CloseWrite closes the side to the client and leaves the other open. It fails if the
// connection below cannot do that.
func (c *switched) CloseWrite() error { return wire.CloseWrite(c.Conn) }
