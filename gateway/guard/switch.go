// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"net"
	"net/http"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// attributes are those of a request. How many bytes one sends that switches
// protocol is not known before, so it is charged as a body of unknown length.
type attributes struct {
	policy.HTTP
	switches bool
}

func (a *attributes) Length() int64 {
	if a.switches {
		return -1
	}
	return a.HTTP.Length()
}

// maySwitch reports whether a request asks for another protocol. One that has a
// body of known length beside, as clients send that would rather have HTTP/2, is
// charged for that at once.
func maySwitch(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Header.Get("Upgrade") != "" && (r.Method == http.MethodGet || r.ContentLength == 0)
}

// Hijack counts and paces a connection that switches protocol, too.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := wire.Hijack(w.ResponseWriter)
	if err != nil {
		return conn, rw, err
	}
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	c := &countedConn{Conn: conn, recorder: w, pace: w.requests.clone()}
	return c, bufio.NewReadWriter(bufio.NewReader(c), rw.Writer), nil
}

// countedConn is a connection that has switched protocol: what is read from it
// counts as the request's body, and what is written as the response's.
type countedConn struct {
	net.Conn
	recorder *recorder
	pace     *pace // of what is read; one of its own, as a body may still be read
}

func (c *countedConn) Read(p []byte) (int, error) {
	return c.pace.read(p, &c.recorder.read, c.Conn.Read)
}

func (c *countedConn) Write(p []byte) (int, error) {
	write := func(p []byte) (int, error) {
		n, err := c.Conn.Write(p)
		c.recorder.written.Add(int64(n))
		return n, err
	}
	if c.recorder.pace == nil {
		return write(p)
	}
	return c.recorder.pace.write(p, write)
}

// CloseWrite ends what the client is sent and leaves what it sends open. It is
// an error where the connection below cannot do that.
func (c *countedConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
