// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

// lateAnswer is how long an upstream that reads no more of a request may take for a
// response. What it sent before it closed is there at once.
const lateAnswer = 50 * time.Millisecond

// timedOut matches what begins as a response of 408.
var timedOut = regexp.MustCompile(`^HTTP/1\.[01] 408`)

// conn is a connection to the upstream. One exchange at a time uses it.
type conn struct {
	net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	peek *peek // nil: it cannot be seen whether something has come

	opts   *Options
	last   exchange.Deadline
	used   bool // for a request before this one
	idleAt time.Time

	left    int64 // bytes that may be read
	header  int64 // of them at first
	written int64 // bytes of the request
	ended   bool  // the upstream sends nothing more

	mu    sync.Mutex
	over  bool      // the exchange was broken off
	due   time.Time // when what is waited for is to be there; zero: at any time
	armed time.Time // the deadline of reads that was set last
}

func newConn(below net.Conn, opts *Options) *conn {
	c := &conn{Conn: below, opts: opts, peek: newPeek(below)}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(c)
	return c
}

// Read reads what the upstream sends, within the bounds of time and size. A deadline
// that has passed before what is waited for was due, as of the exchange before this
// one, is put off: setting one for each would cost more than the rest of a read.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("h1: the header of the response has more than %d bytes", c.header)
	}
	p = p[:min(int64(len(p)), c.left)]
	for {
		n, err := c.Conn.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.putOff() {
			continue
		}
		c.left -= int64(n)
		c.ended = c.ended || errors.Is(err, io.EOF)
		return n, err
	}
}

// putOff sets the deadline of reads to what is due. It reports whether there is time
// left.
func (c *conn) putOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || !c.due.IsZero() && !time.Now().Before(c.due) {
		return false
	}
	c.armed = c.due
	return c.SetReadDeadline(c.armed) == nil
}

// Write sends a part of a request.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.written += int64(n)
	return n, err
}

func (c *conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return os.ErrDeadlineExceeded
	}
	if deadline, ok := c.last.Extend(c.opts.StallTimeout); ok {
		return c.SetWriteDeadline(deadline)
	}
	return nil
}

// begin makes the connection that of a new exchange.
func (c *conn) begin(header int64) {
	c.left, c.header, c.written = header, header, 0
}

// expect bounds the time until the header is there.
func (c *conn) expect(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Now().Add(d)
	if c.armed.IsZero() && !c.over {
		c.armed = c.due
		_ = c.SetReadDeadline(c.armed) // an error says that it is closed, which the read will
	}
}

// unbound lets the body of a response take any time and size.
func (c *conn) unbound() {
	c.left = math.MaxInt64
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Time{}
}

// answered reports whether an upstream that reads no more of a request has sent a
// response to what it read.
func (c *conn) answered() bool {
	c.expect(lateAnswer)
	_, err := c.in.Peek(1)
	return err == nil
}

// breakOff ends what waits on the connection, for good.
func (c *conn) breakOff() {
	c.over = true
	c.close()
}

// clean reports whether nothing has come that the last exchange has not read.
func (c *conn) clean() bool {
	if n := c.in.Buffered(); n > 0 {
		behind, _ := c.in.Peek(n) // which are there
		c.unsolicited(behind)
		return false
	}
	return !c.ended && c.out.Buffered() == 0
}

// unsolicited reports bytes that are none of a response to a request. An upstream that
// closes a connection may say so by a response of 408, which is nothing to be reported.
func (c *conn) unsolicited(came []byte) {
	if len(came) > 0 && !timedOut.Match(came) {
		c.opts.Unsolicited(came[:min(len(came), most)])
	}
}

// quiet reports whether nothing has come since, no byte and no end. What would be read
// now is not the response to what is sent next.
func (c *conn) quiet() bool {
	if c.peek == nil || c.in.Buffered() > 0 {
		return false
	}
	if !c.armed.IsZero() && !time.Now().Before(c.armed) && !c.putOff() {
		return false // nothing is read behind a deadline
	}
	if c.peek.quiet() {
		return true
	}
	c.unsolicited(c.peek.came())
	return false
}

func (c *conn) close() {
	_ = c.Close() // an error leaves nothing to do
}
