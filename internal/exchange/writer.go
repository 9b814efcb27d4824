// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Write sends p, when its turn has come.
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
			// What has waited for its turn does not wait in a buffer, too.
			err = x.flush()
		}
		return n, err
	})
}

// WriteString is Write of a string.
func (x *Exchange) WriteString(s string) (int, error) {
	if !x.plain() || x.Refused() {
		return x.Write([]byte(s))
	}
	x.defaultStatus()
	n, err := io.WriteString(x.below, s)
	x.count(n)
	return n, err
}

// ReadFrom keeps net/http's way of sending files without copying them.
func (x *Exchange) ReadFrom(source io.Reader) (int64, error) {
	if !x.plain() || x.Refused() {
		return io.Copy(struct{ io.Writer }{x}, source)
	}
	x.defaultStatus()
	n, err := io.Copy(x.below, source)
	x.count(int(n))
	return n, err
}

// plain reports whether what is written is no more than counted.
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

// flush returns the error that Flush does not, as ResponseController asks for.
func (x *Exchange) flush() error {
	if x.bare {
		return nil
	}
	x.Refused() // what is flushed then is the answer
	x.defaultStatus()
	if err := x.stall.write(); err != nil {
		return err
	}
	err := x.control().Flush()
	x.stall.clearWriteDeadline()
	return err
}

// view returns x with Flush and Hijack if the writer below has them, for those
// that ask the writer itself. [http.ResponseController] finds what lies under x by
// Unwrap.
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

// Flush has no way to say that the client is gone; the next Write does.
func (f flusher) Flush() { _ = f.flush() }

type hijacker struct{ *Exchange }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }

type flusherHijacker struct{ *Exchange }

func (f flusherHijacker) FlushError() error { return f.flush() }

// Flush has no way to say that the client is gone; the next Write does.
func (f flusherHijacker) Flush() { _ = f.flush() }

func (f flusherHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return f.hijack() }
