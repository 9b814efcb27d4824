// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Hijack takes over the connection of w as [http.ResponseController] does. Reads of the
// connection begin with the bytes that net/http has already read. net/http itself leaves these
// only in the reader, which [httputil.ReverseProxy] does not read. Read only one of the two.
func Hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil || rw.Reader.Buffered() == 0 {
		return conn, rw, err
	}
	whole := &earlyConn{Conn: conn, early: rw.Reader}
	return whole, bufio.NewReadWriter(bufio.NewReader(whole), rw.Writer), nil
}

// earlyConn is a connection. The server has already read some of its bytes.
type earlyConn struct {
	net.Conn
	early *bufio.Reader // nil once it is empty
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if c.early != nil {
		if n := c.early.Buffered(); n > 0 {
			return c.early.Read(p[:min(len(p), n)])
		}
		c.early = nil
	}
	return c.Conn.Read(p)
}

// CloseWrite closes the sending side of the connection. It fails if the underlying connection
// cannot do that.
func (c *earlyConn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite closes the sending side of a connection. It fails if the connection cannot do
// that.
func CloseWrite(conn io.Closer) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("close write: %T cannot be half closed", conn)
	}
	return half.CloseWrite()
}
