// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// errNoAnswer is why an exchange failed whose response did not come in time.
const errNoAnswer timeoutError = "gateway: no header of a response came from the upstream in time"

// timeoutError says what took too long.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// Timeout says what kind of error it is to callers that do not know it.
func (timeoutError) Timeout() bool { return true }

// Temporary is of [net.Error].
func (timeoutError) Temporary() bool { return false }

// answerBound bounds how long an upstream of HTTP/1 may take from the end of a request
// to the header of its response. The transport of net/http does so by a timer that it
// makes for each request; this one moves one timer, once in each timeout.
type answerBound struct {
	conn  net.Conn
	d     time.Duration
	began time.Time
	wrote func(httptrace.WroteRequestInfo) // sent, made once
	// What writes has these two: that something of the request was written, and that what
	// is written next is the last of it.
	some, last bool
	// since is when the request had been sent, in ns after began, or one of the values
	// below.
	since  atomic.Int64
	silent atomic.Bool // nothing has come since the request began
	armed  atomic.Bool // the timer will fire
	timer  *time.Timer
}

const (
	notAwaited = -iota // no response is
	sending            // the request is being sent
	late               // the response is
)

func newAnswerBound(c net.Conn, d time.Duration) *answerBound {
	a := &answerBound{conn: c, d: d, began: time.Now()}
	a.wrote = func(httptrace.WroteRequestInfo) { a.sent() }
	a.armed.Store(true)
	a.timer = time.AfterFunc(d, a.look)
	return a
}

// now returns the time since the connection was made, more than 0.
func (a *answerBound) now() int64 { return int64(time.Since(a.began)) + 1 }

// begin is called before a request is sent.
func (a *answerBound) begin() {
	a.some, a.last = false, false
	a.silent.Store(true)
	a.since.Store(sending)
}

// sent is called when the transport has all of the request, of which some may wait in its
// buffer.
func (a *answerBound) sent() {
	a.last = true
	if a.some { // else all of it waits
		a.start()
	}
}

// write writes p of the request.
func (a *answerBound) write(to net.Conn, p []byte) (int, error) {
	if a.some = true; !a.last {
		return to.Write(p)
	}
	if since := a.since.Load(); since > 0 {
		a.since.CompareAndSwap(since, sending)
	}
	n, err := to.Write(p)
	a.start()
	return n, err
}

// start begins to wait for the response.
func (a *answerBound) start() {
	if a.since.CompareAndSwap(sending, a.now()) {
		a.arm(a.d)
	}
}

// end is called when the response's header is there, or will not come. It reports whether
// it was late.
func (a *answerBound) end() (wasLate bool) { return a.since.Swap(notAwaited) == late }

func (a *answerBound) arm(d time.Duration) {
	if !a.armed.Load() && a.armed.CompareAndSwap(false, true) {
		a.timer.Reset(d)
	}
}

// look ends the wait for a response that is late.
func (a *answerBound) look() {
	a.armed.Store(false) // before a look at since: a start meanwhile finds one or the other
	since := a.since.Load()
	if since <= 0 {
		return
	}
	if left := a.d - time.Duration(a.now()-since); left > 0 {
		a.arm(left)
		return
	}
	if a.since.CompareAndSwap(since, late) {
		_ = a.conn.SetReadDeadline(time.Unix(1, 0)) // an error means that it is closed
	}
}

// noAnswer is what a connection reads whose upstream has not said anything in time. The
// transport sends a request once more whose connection fails before that, and the
// upstream may be working on it. Nobody gets this response: see [passage.exchange].
const noAnswer = "HTTP/1.1 504 Gateway Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// read returns what a read has.
func (a *answerBound) read(p []byte, n int, err error) (int, error) {
	switch {
	case !a.silent.Load():
	case n > 0:
		a.silent.Store(false)
	case err != nil && a.since.Load() == late && len(p) >= len(noAnswer):
		a.silent.Store(false)
		return copy(p, noAnswer), nil
	}
	return n, err
}
