// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// WithDeadlines returns a handler that closes connections which stand still: a
// client that sends no further byte of its request's body for d, or takes none
// of the response. A body may take as long as it likes so long as it moves, and
// a handler that has nothing to write may be silent: other than the timeouts
// of an [http.Server] this suits streams. It belongs around every other
// handler. Connections that switch protocol are left alone.
func WithDeadlines(next http.Handler, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Time{}); err != nil {
			next.ServeHTTP(w, r) // no connection, as in a test
			return
		}
		dw := &deadlineWriter{ResponseWriter: w, control: control, d: d}
		if r.Body != nil && r.Body != http.NoBody {
			r = r.WithContext(r.Context()) // a copy: the caller's keeps its Body
			r.Body = &deadlineBody{ReadCloser: r.Body, control: control, d: d}
		}
		defer dw.finish()
		next.ServeHTTP(dw, r)
	})
}

type deadlineWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	d        time.Duration
	hijacked bool
}

func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *deadlineWriter) WriteHeader(status int) {
	// An error means that the connection is gone, which Write will report.
	_ = w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	if err := w.extend(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

func (w *deadlineWriter) FlushError() error {
	if err := w.extend(); err != nil {
		return err
	}
	return w.control.Flush()
}

func (w *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	w.hijacked = err == nil
	return conn, rw, err
}

func (w *deadlineWriter) extend() error { return w.control.SetWriteDeadline(time.Now().Add(w.d)) }

// finish bounds what the server still does by itself: sending what is buffered
// and reading what is left of the body.
func (w *deadlineWriter) finish() {
	if w.hijacked {
		return
	}
	end := time.Now().Add(w.d)
	// Errors mean that the connection is gone: nothing is left to be bounded.
	_ = w.control.SetReadDeadline(end)
	_ = w.control.SetWriteDeadline(end)
}

type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	d       time.Duration
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	if err := b.control.SetReadDeadline(time.Now().Add(b.d)); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// From here on the server only watches whether the client is still
		// there, for as long as the handler takes.
		if failed := b.control.SetReadDeadline(time.Time{}); failed != nil {
			return n, failed
		}
	}
	return n, err
}
