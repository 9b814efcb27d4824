// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package watch observes the outcome of requests in frameworks over net/http.
package watch

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/sluicegate/sluice/policy"
)

// Traffic counts the bytes of a request and of its response, including those on a hijacked
// connection. Its counters are safe for concurrent use.
type Traffic struct {
	r              *http.Request
	read, written  atomic.Int64
	hijacked, over atomic.Bool
}

// Request begins to watch r, and returns a request whose body is counted.
func (t *Traffic) Request(r *http.Request) *http.Request {
	t.r = r
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	copied := *r
	copied.Body = &body{r.Body, t}
	return &copied
}

// Wrote counts bytes of the response.
func (t *Traffic) Wrote(n int) { t.written.Add(int64(n)) }

// Hijacked wraps the results of a hijack to count their bytes. Reads of the connection begin
// with bytes that have already been received.
func (t *Traffic) Hijacked(c net.Conn, rw *bufio.ReadWriter, err error) (net.Conn, *bufio.ReadWriter, error) {
	if err != nil {
		return c, rw, err
	}
	t.hijacked.Store(true)
	counted := &conn{Conn: c, t: t, early: rw.Reader}
	return counted, bufio.NewReadWriter(bufio.NewReader(counted), bufio.NewWriter(counted)), nil
}

// Response returns the outcome of the request when the handlers have returned or, if not
// returned, panicked. The status is the one that they wrote, 0 if none: net/http then answers
// 200 if the client is still there. An error of the server after the client had left counts as
// unseen: the leave may have caused it.
func (t *Traffic) Response(status int, returned bool) policy.Response {
	t.over.Store(true)
	resp := policy.Response{Status: status, Read: t.read.Load(), Written: t.written.Load()}
	switch {
	case t.hijacked.Load():
		if status == 0 {
			resp.Status = http.StatusSwitchingProtocols
		}
		return resp
	case status != 0:
		resp.Unseen = status >= http.StatusInternalServerError && t.Left()
	case returned:
		resp.Status, resp.Unseen = http.StatusOK, t.Left()
	default:
		resp.Status, resp.Unseen = http.StatusInternalServerError, true
	}
	if t.r.Method == http.MethodHead {
		resp.Written = 0 // the handlers' body was not sent
	}
	return resp
}

// Left reports whether the client has left, or the server has given the request up.
func (t *Traffic) Left() bool { return t.r.Context().Err() != nil }

// body is a request's body. After the settlement no byte is read, as it would not count.
type body struct {
	io.ReadCloser
	t *Traffic
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.t.read.Add(int64(n))
	if b.t.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return n, err
}

// conn is a hijacked connection. The server has already read some of its bytes.
type conn struct {
	net.Conn
	t     *Traffic
	early *bufio.Reader
}

func (c *conn) Read(p []byte) (n int, err error) {
	if early := c.early.Buffered(); early > 0 {
		n, err = c.early.Read(p[:min(len(p), early)])
	} else {
		n, err = c.Conn.Read(p)
	}
	c.t.read.Add(int64(n))
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.t.Wrote(n)
	return n, err
}

// CloseWrite closes the sending side of the connection. It fails if the underlying connection
// cannot do that.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("watch: %T cannot be half closed", c.Conn)
	}
	return half.CloseWrite()
}
