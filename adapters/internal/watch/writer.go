// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bufio"
	"net"
	"net/http"
)

// Writer is a response writer that counts the bytes written. It belongs to the goroutine of the
// handler, except its Traffic.
type Writer struct {
	http.ResponseWriter
	Traffic
	status int
}

// Status returns the status that was written, 0 if none was.
func (w *Writer) Status() int { return w.status }

// WriteHeader sends the status.
func (w *Writer) WriteHeader(status int) {
	// Informational responses come before the final one, but 101 ends the exchange.
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

// defaultStatus sets the status to 200 if no handler has set one.
func (w *Writer) defaultStatus() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// FlushError sends buffered bytes. It fails if the underlying writer cannot flush.
func (w *Writer) FlushError() error {
	w.defaultStatus()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush cannot report that the client has left; the next Write does.
func (w *Writer) Flush() { _ = w.FlushError() }

// Hijack takes over the connection. Its bytes are counted.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.Hijacked(http.NewResponseController(w.ResponseWriter).Hijack())
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
