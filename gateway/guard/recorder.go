// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/wire"
)

// recorder is a ResponseWriter that remembers the status, counts the bytes of
// the body and, where a rule shapes, lets them through at its pace.
type recorder struct {
	http.ResponseWriter
	status   int
	head     bool // nothing of the body is sent
	returned bool // the handler did, other than by a panic
	lost     bool // the request may have been acted on, but nobody saw the response
	written  atomic.Int64
	read     atomic.Int64 // after a switch of protocol, beside the request's body
	pace     *pace        // nil: as fast as it goes
	requests *pace        // that of the request's body, likewise
}

// Unwrap lets [http.ResponseController] through.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	// Informational answers come before the real one, but 101 ends the exchange.
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.head {
		return w.ResponseWriter.Write(p)
	}
	if w.pace == nil {
		n, err := w.ResponseWriter.Write(p)
		w.written.Add(int64(n))
		return n, err
	}
	return w.pace.write(p, func(p []byte) (int, error) {
		n, err := w.ResponseWriter.Write(p)
		w.written.Add(int64(n))
		if err == nil {
			// What has waited for its turn does not wait in a buffer, too.
			err = http.NewResponseController(w.ResponseWriter).Flush()
		}
		return n, err
	})
}

var _ wire.Observer = (*recorder)(nil)

// Unseen is called by a handler that answers in the place of an upstream which
// may have acted on the request, and whose response it has not seen.
func (w *recorder) Unseen() { w.lost = true }

// unseen reports whether nobody saw the response to what may have been acted on.
func (w *recorder) unseen() bool { return w.lost || w.status == 0 && !w.returned }

// response returns the status of the answer. A handler that did not return
// answered 500, unless it had begun with something else.
func (w *recorder) response() int {
	switch {
	case w.status != 0:
		return w.status
	case w.returned:
		return http.StatusOK
	default:
		return http.StatusInternalServerError
	}
}

// countedBody counts what is read of a request's body, by whichever goroutine
// reads it, and lets it through at the pace of a rule that shapes.
type countedBody struct {
	io.ReadCloser
	read atomic.Int64
	over atomic.Bool // what comes from now on does not count, and goes nowhere
	pace *pace
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.pace.read(p, &b.read, b.ReadCloser.Read)
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return n, err
}

// end returns how much was read. A Read that has not returned by then, as of a
// transport whose response came early, passes on nothing that is not counted.
func (b *countedBody) end() int64 {
	b.over.Store(true)
	return b.read.Load()
}
