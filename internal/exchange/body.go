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

// Body is a request's body. It counts what is read, by whichever goroutine reads
// it, and remembers how it ended.
type Body struct {
	timed  timed
	source io.ReadCloser // timed, or what wraps it
	x      *Exchange
	most   int64 // bytes that may be read; 0: any number
	read   atomic.Int64
	over   atomic.Bool // what comes from now on does not count, and goes nowhere
	ended  atomic.Bool // whole
	failed atomic.Pointer[error]
}

// timed is the body as it came, within the bounds of time.
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

// Wrap puts another source in the place of the body's.
func (b *Body) Wrap(by func(io.ReadCloser) io.ReadCloser) { b.source = by(b.source) }

// Limit bounds how many bytes may be read. Behind them Read returns a
// [*http.MaxBytesError], and no other request can follow on the connection.
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
	case !errors.Is(err, http.ErrBodyReadAfterClose): // the exchange was over already, whatever ended it
		b.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// next reads what comes next, within the bound of size.
func (b *Body) next(p []byte) (int, error) {
	if b.most > 0 {
		// One byte more distinguishes a body of that size from a larger one.
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

// End stops the body. A Read that has not returned by then, as of a transport
// whose response came early, passes on nothing that is not counted.
func (b *Body) End() { b.over.Store(true) }

// Ended reports whether the body was read to its end.
func (b *Body) Ended() bool { return b.ended.Load() }

// Err returns what was wrong with the body, nil if nothing was.
func (b *Body) Err() error {
	if err := b.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// errDenied is the error of a body that must not be read on.
var errDenied = errors.New("exchange: the request's body was denied")

// meter ends an exchange whose body is denied while it is read.
type meter struct {
	take   func(n int, last bool) bool // nil: nothing is denied
	refuse func()
	before http.Header  // of the response, with which the answer begins
	state  atomic.Int32 // open, begun or denied
	// Both belong to the goroutine that writes the response: refuse has begun to write it;
	// it has written it, and the writes of handlers are dropped.
	answers, over bool
}

// No response has begun, a handler's has, or none of a handler's will.
const open, begun, denied = 0, 1, 2

// Meter calls take with each part of the request's body that was read, before the part is
// passed on; last says that no part follows. A part that take denies ends the body, and
// refuse writes the response in the place of the handlers further in. A response that has
// begun is cut off. The response to a denial has the header fields that are set when Meter
// is called.
func (x *Exchange) Meter(take func(n int, last bool) bool, refuse func()) {
	x.meter.take, x.meter.refuse, x.meter.before = take, refuse, x.Header().Clone()
}

// read decides about n bytes.
func (m *meter) read(x *Exchange, n int, last bool) error {
	if m.take == nil || n == 0 || m.take(n, last) {
		return nil
	}
	if !m.state.CompareAndSwap(open, denied) && m.state.Load() == begun {
		CutResponse(x)
	}
	return errDenied
}

// Refused has the answer written if the body was denied before a response had begun,
// and reports whether it was. It belongs before whatever begins one.
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
