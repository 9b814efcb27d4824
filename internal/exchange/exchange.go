// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package exchange is the one wrapper of an HTTP response and of its request's
// body. Handlers that stand around another share it: they ask [Begin] or [Count]
// for it, and the innermost passes on one request, one writer and one body.
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

// Exchange is a request and its response on their way through the handlers of
// one server. It belongs to the goroutine of the handler, but for its body and a
// connection that has switched protocol.
type Exchange struct {
	below http.ResponseWriter
	outer *Exchange                // the next one below; nil: there is none
	made  *http.ResponseController // of below; made when it is first needed
	// OnHeader, if not nil, is called before the response's status is sent, or an
	// informational one.
	OnHeader func(status int)
	// Failed says that the response is a handler's own, in the place of an
	// upstream's.
	Failed bool

	// Settlement, if not nil, is what a handler has to do when the response is known.
	Settlement *Settlement

	upstream *Upstream // nil: nobody wants to know of it
	noted    Upstream  // memory of it

	// request is the one copy that handlers may change, made by the first that
	// needs it; nil as long as the one that came will do.
	request          *http.Request
	response, upload *Pace
	sent             atomic.Bool // there was a connection for the request to an upstream
	body             Body
	meter            meter // of the body
	stall            stall
	came             time.Time // noted by Stall
	kept             []field
	status           int
	counted          bool // a handler has it by Count
	carrier          bool // another one lies over it
	head             bool // nothing of the response's body is sent
	bare             bool // the response has no body
	lost             bool // the request may have been acted on, but nobody saw the response
	running          bool // it may still be
	// written counts the response's body; switched what came after a switch of
	// protocol, beside the request's body.
	written, switched atomic.Int64
}

// sharer is a writer that handlers share.
type sharer interface{ shared() *Exchange }

func (x *Exchange) shared() *Exchange { return x }

// Begin returns the Exchange of w, or a new one, and the writer that the next
// handler gets. A request with another body than that of w has a new one.
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

// unused are Exchanges that nobody has any more, each zero again.
var unused sync.Pool

// Finish bounds what the server does by itself behind the handler that was given w, and has
// x by Begin. Nothing may use x then, if no other handler has begun it.
func (x *Exchange) Finish(w http.ResponseWriter) {
	x.stall.finish()
	if Of(w) == nil && x.alone() {
		*x = Exchange{}
		unused.Put(x)
	}
}

// alone reports whether nobody has the Exchange when its handlers have returned: the
// request had no body, nothing goes on behind its response, and no other Exchange
// lies over this one.
func (x *Exchange) alone() bool {
	return x.body.source == nil && x.Settlement == nil && !x.stall.switched && !x.carrier
}

// Count is Begin for a handler that counts what passes until it returns, or slows
// it down. Each has an Exchange to itself: what passes by one around it that does
// so, too, and may call it several times, is not its own.
func Count(w http.ResponseWriter, r *http.Request) (*Exchange, http.ResponseWriter) {
	x, next := Begin(w, r)
	if x.counted {
		x, next = begin(w, r)
	}
	x.counted = true
	return x, next
}

// Of returns the Exchange of w, nil if it has none.
func Of(w http.ResponseWriter) *Exchange {
	if s, ok := w.(sharer); ok {
		return s.shared()
	}
	return nil
}

// carries reports whether the request's body is that of the Exchange, or may
// become it.
func (x *Exchange) carries(r *http.Request) bool {
	return x.body.source == nil || r.Body == io.ReadCloser(&x.body)
}

// Watch puts the body of the Exchange in the place of the request's, if that has
// one.
func (x *Exchange) Watch(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || x.body.source != nil {
		return r // none, or ours
	}
	x.body.x, x.body.timed = x, timed{r.Body, &x.stall}
	x.body.source = &x.body.timed
	r = x.Own(r)
	r.Body = &x.body
	return r
}

// Connected notes that there is a connection to an upstream for the request: see
// [Exchange.Sent].
func (x *Exchange) Connected() { x.sent.Store(true) }

// Sent reports whether there was a connection to an upstream for the request.
func (x *Exchange) Sent() bool { return x.sent.Load() }

// Own returns r, if it is the copy that handlers may change, or else makes it.
func (x *Exchange) Own(r *http.Request) *http.Request {
	if r != x.request {
		copied := *r
		x.request = &copied
	}
	return x.request
}

// Body returns the request's body, nil if it has none.
func (x *Exchange) Body() *Body {
	if x.body.source == nil {
		return nil
	}
	return &x.body
}

// Status returns the status of the response, 0 if nobody has written one.
func (x *Exchange) Status() int { return x.status }

// Written returns how many bytes of the response's body were sent, with those of
// a connection that has switched protocol.
func (x *Exchange) Written() int64 { return x.written.Load() }

// Read returns how many bytes of the request's body were read, with those of a
// connection that has switched protocol.
func (x *Exchange) Read() int64 { return x.body.read.Load() + x.switched.Load() }

var (
	_ wire.Observer = (*Exchange)(nil)
	_ wire.Watcher  = (*Exchange)(nil)
)

// Unseen is called by a handler that answers in the place of an upstream which
// may have acted on the request, and whose response it has not seen.
func (x *Exchange) Unseen() { x.lost = true }

// Running is called by a handler that gave up an upstream which may go on working
// on the request.
func (x *Exchange) Running() { x.running = true }

// Runs reports whether an upstream may still work on the request.
func (x *Exchange) Runs() bool { return x.running }

// Lost reports whether nobody saw the response to what may have been acted on:
// also where no handler has written one, as one that the writer was hidden from.
func (x *Exchange) Lost() bool { return x.lost || x.status == 0 }

// Slow slows the response and what the client sends down, beside whatever does
// already. Nil is as fast as it goes.
func (x *Exchange) Slow(response, upload *Pace) {
	x.response, x.upload = x.response.beside(response), x.upload.beside(upload)
}

// setWriteDeadline sets that of the response.
func (x *Exchange) setWriteDeadline(t time.Time) error {
	if w, ok := x.below.(interface{ SetWriteDeadline(time.Time) error }); ok {
		return w.SetWriteDeadline(t) // which needs no memory
	}
	return x.control().SetWriteDeadline(t)
}

func (x *Exchange) control() *http.ResponseController {
	if x.made == nil {
		x.made = http.NewResponseController(x.below)
	}
	return x.made
}

// Stall bounds how long the client may let a body stand still, or a response.
func (x *Exchange) Stall(d time.Duration, r *http.Request) {
	x.came = time.Now()
	x.stall.begin(d, r)
}

// Streams lets the client be silent for as long as it likes: what answers has begun
// to, by a protocol in which both sides speak when they have something to say.
func (x *Exchange) Streams() { x.stall.unboundReads() }

// Bare says that the response is its header alone. A flush by a handler that does not know
// it yet would send that without the end.
func (x *Exchange) Bare() { x.bare = true }

// LeastRate bounds how slowly the client may send a body that is being read: it may
// be waited for 10 s, and longer by as much as what has come takes at that many bytes
// a second. It belongs behind Stall, whose bound is that of a single wait. Slow is
// called, by the goroutine that reads, when a body is cut off for that.
func (x *Exchange) LeastRate(bytes int64, slow func()) {
	x.stall.rate = rate{least: bytes, left: bodyGrace, slow: slow}
}

// Header returns the fields of the response.
func (x *Exchange) Header() http.Header { return x.below.Header() }

// Unwrap lets [http.ResponseController] through.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.below }

// WriteHeader sends the status.
func (x *Exchange) WriteHeader(status int) {
	if x.meter.over || (status >= http.StatusOK || status == http.StatusSwitchingProtocols) && x.Refused() {
		return
	}
	// Informational answers come before the real one, but 101 ends the exchange.
	if x.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		x.status = status
	}
	if x.OnHeader != nil {
		x.OnHeader(status)
	}
	if status >= http.StatusOK {
		x.keep()
	}
	if x.stall.d > 0 && status < http.StatusOK { // others are sent with what follows
		// An error means that the connection is gone, which Write will report.
		_ = x.stall.write()
		defer x.stall.clearWriteDeadline()
	}
	x.below.WriteHeader(status)
}

// defaultStatus makes the status 200 that no handler has set.
func (x *Exchange) defaultStatus() {
	if x.status == 0 {
		x.status = http.StatusOK
		if x.OnHeader != nil {
			x.OnHeader(http.StatusOK)
		}
		x.keep()
	}
}

// hijack takes over the connection. What passes on it counts, and is slowed down.
func (x *Exchange) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := wire.Hijack(x.below)
	if err != nil {
		return conn, rw, err
	}
	x.stall.switched = true // it is left alone from now on
	if x.status == 0 {
		x.status = http.StatusSwitchingProtocols
		if x.OnHeader != nil {
			x.OnHeader(x.status)
		}
	}
	c := &switched{Conn: conn, x: x}
	return c, bufio.NewReadWriter(bufio.NewReader(c), rw.Writer), nil
}

// switched is a connection that has switched protocol: what is read from it
// counts as the request's body, and what is written as the response's.
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

// CloseWrite ends what the client is sent and leaves what it sends open. It is
// an error where the connection below cannot do that.
func (c *switched) CloseWrite() error { return wire.CloseWrite(c.Conn) }
