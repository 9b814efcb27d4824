// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bufio"
	"net"
	"net/http"
)

// Writer is a response's writer that counts what is written. It belongs to the
// goroutine of the handler, but for its Traffic.
type Writer struct {
	http.ResponseWriter
	Traffic
	status int
}

// Status returns the status that was written, 0 if none was.
func (w *Writer) Status() int { return w.status }

// WriteHeader sends the status.
func (w *Writer) WriteHeader(status int) {
	// Informational answers come before the real one, but 101 ends the exchange.
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Writer) Write(p []byte) (int, error) {
	w.defaultStatus()
	n, err := w.ResponseWriter.Write(p)
	w.Wrote(n)
	return n, err
}

// defaultStatus makes the status 200 that no handler has set.
func (w *Writer) defaultStatus() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// FlushError sends what is buffered. It is an error where the writer below cannot
// do that.
func (w *Writer) FlushError() error {
	w.defaultStatus()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush has no way to say that the client is gone; the next Write does.
func (w *Writer) Flush() { _ = w.FlushError() }

// Hijack takes over the connection. What passes on it counts.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.Hijacked(http.NewResponseController(w.ResponseWriter).Hijack())
}

// Unwrap lets [http.ResponseController] through.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
