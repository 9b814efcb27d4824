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
// of the response. It takes up to a sixteenth more than d. A body may take as
// long as it likes so long as it moves, and a handler that has nothing to write
// may be silent: other than the timeouts of an [http.Server] this suits streams.
// It belongs around every other handler, in a server without a ReadTimeout and
// a WriteTimeout of its own. Connections that switch protocol are left alone.
func WithDeadlines(next http.Handler, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dw := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), d: d, stream: r.ProtoMajor > 1}
		if r.Body != nil && r.Body != http.NoBody {
			if err := dw.control.SetReadDeadline(time.Time{}); err != nil {
				next.ServeHTTP(w, r) // no connection, as in a test
				return
			}
			r = r.WithContext(r.Context()) // a copy: the caller's keeps its Body
			r.Body = &deadlineBody{ReadCloser: r.Body, control: dw.control, d: d}
			dw.reads = true
		}
		defer dw.finish()
		next.ServeHTTP(dw, r)
	})
}

// moving remembers how long a deadline that was put off still holds. Setting one
// costs a request in ten; most of what passes does so within moments.
type moving struct{ until time.Time }

// extend returns the deadline that is to be set for something that may stand
// still for d, and false if the one that was set last will do.
func (m *moving) extend(d time.Duration) (deadline time.Time, ok bool) {
	now := time.Now()
	if now.Before(m.until) {
		return time.Time{}, false
	}
	slack := d / 16
	m.until = now.Add(slack)
	return m.until.Add(d), true
}

type deadlineWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	d        time.Duration
	last     moving
	reads    bool // the request has a body
	stream   bool // of HTTP/2, which a deadline ends also if nothing is written
	alone    bool // there is no connection, as in a test
	hijacked bool
}

func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *deadlineWriter) WriteHeader(status int) {
	if status < http.StatusOK { // others are sent with what follows
		// An error means that the connection is gone, which Write will report.
		_ = w.extend()
		defer w.rest()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	if err := w.extend(); err != nil {
		return 0, err
	}
	n, err := w.ResponseWriter.Write(p)
	w.rest()
	return n, err
}

func (w *deadlineWriter) FlushError() error {
	if err := w.extend(); err != nil {
		return err
	}
	err := w.control.Flush()
	w.rest()
	return err
}

func (w *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	w.hijacked = err == nil
	return conn, rw, err
}

func (w *deadlineWriter) extend() error {
	if w.alone {
		return nil
	}
	deadline, ok := w.last.extend(w.d)
	if !ok {
		return nil
	}
	err := w.control.SetWriteDeadline(deadline)
	if errors.Is(err, http.ErrNotSupported) {
		w.alone = true
		return nil
	}
	return err
}

// rest takes the deadline of a stream away while its handler is silent. On a
// connection it does no harm before the next write.
func (w *deadlineWriter) rest() {
	if w.stream && !w.alone {
		_ = w.control.SetWriteDeadline(time.Time{}) // an error means that it is gone
		w.last = moving{}
	}
}

// finish bounds what the server still does by itself: sending what is buffered
// and reading what is left of the body.
func (w *deadlineWriter) finish() {
	if w.hijacked {
		return
	}
	// Errors mean that the connection is gone: nothing is left to be bounded.
	_ = w.extend()
	if w.reads {
		_ = w.control.SetReadDeadline(time.Now().Add(w.d))
	}
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
