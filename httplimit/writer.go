// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// counter is a ResponseWriter that remembers the status and counts the bytes.
// [http.ResponseController] finds what lies under it by Unwrap; for those who
// ask the writer itself, [counter.writer] gives it the methods of the one
// below, and no others.
type counter struct {
	http.ResponseWriter
	status  int
	written int64
	head    bool // nothing of the body is sent
}

// Unwrap returns the writer below.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counter) WriteHeader(status int) {
	// Informational answers come before the real one, but 101 ends the exchange.
	if c.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.count(int64(n))
	return n, err
}

func (c *counter) WriteString(s string) (int, error) {
	n, err := io.WriteString(c.ResponseWriter, s)
	c.count(int64(n))
	return n, err
}

// ReadFrom keeps net/http's way of sending files without copying them.
func (c *counter) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, src)
	c.count(n)
	return n, err
}

func (c *counter) count(n int64) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if !c.head {
		c.written += n
	}
}

// response returns what was answered. A handler that did not return answered
// 500, unless it had started on something else.
func (c *counter) response(returned bool) Response {
	status := c.status
	switch {
	case status != 0:
	case returned:
		status = http.StatusOK
	default:
		status = http.StatusInternalServerError
	}
	return Response{Status: status, Header: c.Header(), Written: c.written}
}

// writer returns c with Flush and Hijack if the writer below has them.
func (c *counter) writer() http.ResponseWriter {
	_, flushes := c.ResponseWriter.(http.Flusher)
	_, hijacks := c.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return flushingHijackingCounter{c}
	case flushes:
		return flushingCounter{c}
	case hijacks:
		return hijackingCounter{c}
	}
	return c
}

// flush returns the error that Flush does not, as ResponseController asks for.
func (c *counter) flush() error {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *counter) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := c.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && c.status == 0 {
		c.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

type flushingCounter struct{ *counter }

func (c flushingCounter) FlushError() error { return c.flush() }

// Flush has no way to say that the client is gone; the next Write does.
func (c flushingCounter) Flush() { _ = c.flush() }

type hijackingCounter struct{ *counter }

func (c hijackingCounter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return c.hijack() }

type flushingHijackingCounter struct{ *counter }

func (c flushingHijackingCounter) FlushError() error { return c.flush() }

// Flush has no way to say that the client is gone; the next Write does.
func (c flushingHijackingCounter) Flush() { _ = c.flush() }

func (c flushingHijackingCounter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return c.hijack() }
