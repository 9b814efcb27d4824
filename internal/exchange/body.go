// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"sync/atomic"
)

// Body is a request's body. It counts the bytes read, by any goroutine, and records how it
// ended.
type Body struct {
	timed  timed
	source io.ReadCloser // timed, or its wrapper
	x      *Exchange
	most   int64 // bytes that may be read; 0: no bound
	read   atomic.Int64
	over   atomic.Bool // later reads return no bytes
	ended  atomic.Bool // read whole
	failed atomic.Pointer[error]
}

// timed is the original body, within the bounds of time.
type timed struct {
	io.ReadCloser
	stall *stall
}

func (t *timed) Read(p []byte) (int, error) {
	if err := t.stall.beginRead(); err != nil {
		return 0, err
	}
	n, err := t.ReadCloser.Read(p)
	t.stall.readDone(n)
	switch {
	case errors.Is(err, io.EOF):
		if failed := t.stall.readAll(); failed != nil {
			return n, failed
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.stall.reportSlow()
	}
	return n, err
}

// Wrap replaces the body's source by a wrapper of it.
func (b *Body) Wrap(by func(io.ReadCloser) io.ReadCloser) { b.source = by(b.source) }

// Limit bounds the bytes that may be read. A Read beyond them returns a [*http.MaxBytesError],
// and the connection carries no further request.
func (b *Body) Limit(most int64) { b.most = most }

func (b *Body) Read(p []byte) (int, error) {
	n, err := b.x.upload.read(p, &b.read, b.next)
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case !errors.Is(err, http.ErrBodyReadAfterClose): // the exchange was over already
		b.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// next reads from the source, within the bound of size.
func (b *Body) next(p []byte) (int, error) {
	if b.most > 0 {
		// One more byte distinguishes a larger body from one of that size.
		p = p[:min(int64(len(p)), b.most-b.read.Load()+1)]
	}
	n, err := b.source.Read(p)
	if over := b.read.Load() + int64(n) - b.most; b.most > 0 && over > 0 {
		n, err = n-int(over), &http.MaxBytesError{Limit: b.most}
	}
	if denied := b.x.meter.read(b.x, n, err != nil); denied != nil {
		return 0, denied
	}
	return n, err
}

// Close closes the body's source.
func (b *Body) Close() error { return b.source.Close() }

// End stops the body. A Read still in progress, such as a transport's after an early response,
// returns no bytes.
func (b *Body) End() { b.over.Store(true) }

// Ended reports whether the body was read to its end.
func (b *Body) Ended() bool { return b.ended.Load() }

// Err returns the first error of reading the body, or nil.
func (b *Body) Err() error {
	if err := b.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// errDenied is the error of reading a denied body.
var errDenied = errors.New("exchange: the request's body was denied")

// meter ends an exchange whose body is denied while it is read.
type meter struct {
	take   func(n int, last bool) bool // nil: nothing is denied
	refuse func()
	before http.Header  // of the response; the answer to a denial begins with it
	state  atomic.Int32 // open, begun or denied
	// Both belong to the goroutine that writes the response: answers means that refuse has
	// begun to write it; over means that it has ended, and that writes of handlers are
	// dropped.
	answers, over bool
}

// States of a response: not begun, begun by a handler, or denied to handlers.
const open, begun, denied = 0, 1, 2

// Meter calls take with each part of the request's body before the part is passed on; last
// means that no part follows. If take returns false, the body ends, and refuse writes the
// response in place of the inner handlers. A response that has begun is cut off. The
// response to a denial keeps the header fields set before the call of Meter.
func (x *Exchange) Meter(take func(n int, last bool) bool, refuse func()) {
	x.meter.take, x.meter.refuse, x.meter.before = take, refuse, x.Header().Clone()
}

// read passes n bytes to take and returns errDenied if they are denied.
func (m *meter) read(x *Exchange, n int, last bool) error {
	if m.take == nil || n == 0 || m.take(n, last) {
		return nil
	}
	if !m.state.CompareAndSwap(open, denied) && m.state.Load() == begun {
		CutResponse(x)
	}
	return errDenied
}

// Refused writes the answer if the body was denied before a response had begun, and reports
// whether the answer was written. It must be called before a response begins.
func (x *Exchange) Refused() bool {
	m := &x.meter
	if m.take == nil || m.answers || m.state.CompareAndSwap(open, begun) || m.state.Load() == begun {
		return m.over
	}
	m.answers, x.Failed = true, true
	h := x.Header()
	clear(h)
	maps.Copy(h, m.before)
	m.refuse()
	m.over = true
	return true
}
