// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Write sends p when the Pace admits it.
func (x *Exchange) Write(p []byte) (int, error) {
	if x.Refused() {
		return len(p), nil
	}
	x.defaultStatus()
	if x.response == nil || x.head {
		return x.send(p)
	}
	return x.response.write(p, func(p []byte) (int, error) {
		n, err := x.send(p)
		if err == nil {
			// Bytes that were slowed down are not buffered as well.
			err = x.flush()
		}
		return n, err
	})
}

// WriteString is Write for a string.
func (x *Exchange) WriteString(s string) (int, error) {
	if !x.plain() || x.Refused() {
		return x.Write([]byte(s))
	}
	x.defaultStatus()
	n, err := io.WriteString(x.below, s)
	x.count(n)
	return n, err
}

// ReadFrom lets net/http send files without copying them.
func (x *Exchange) ReadFrom(source io.Reader) (int64, error) {
	if !x.plain() || x.Refused() {
		return io.Copy(struct{ io.Writer }{x}, source)
	}
	x.defaultStatus()
	n, err := io.Copy(x.below, source)
	x.count(int(n))
	return n, err
}

// plain reports whether writes are only counted.
func (x *Exchange) plain() bool { return x.response == nil && x.stall.d == 0 }

func (x *Exchange) send(p []byte) (int, error) {
	if err := x.stall.write(); err != nil {
		return 0, err
	}
	n, err := x.below.Write(p)
	x.stall.clearWriteDeadline()
	x.count(n)
	return n, err
}

func (x *Exchange) count(n int) {
	if !x.head {
		x.written.Add(int64(n))
	}
}

// flush flushes and returns the error, as ResponseController expects.
func (x *Exchange) flush() error {
	if x.bare {
		return nil
	}
	x.Refused() // the flushed response may be the answer to a denial
	x.defaultStatus()
	if err := x.stall.write(); err != nil {
		return err
	}
	err := x.control().Flush()
	x.stall.clearWriteDeadline()
	return err
}

// view returns x with Flush and Hijack if the writer below has them, for callers that assert
// them on the writer itself. [http.ResponseController] finds other methods by Unwrap.
func (x *Exchange) view() http.ResponseWriter {
	_, flushes := x.below.(http.Flusher)
	_, hijacks := x.below.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return flusherHijacker{x}
	case flushes:
		return flusher{x}
	case hijacks:
		return hijacker{x}
	}
	return x
}

type flusher struct{ *Exchange }

func (f flusher) FlushError() error { return f.flush() }

// Flush cannot report that the client is gone; the next Write does.
func (f flusher) Flush() { _ = f.flush() }

type hijacker struct{ *Exchange }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }

type flusherHijacker struct{ *Exchange }

func (f flusherHijacker) FlushError() error { return f.flush() }

// Flush cannot report that the client is gone; the next Write does.
func (f flusherHijacker) Flush() { _ = f.flush() }

func (f flusherHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return f.hijack() }
