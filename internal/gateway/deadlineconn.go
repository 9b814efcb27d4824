// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
)

// ListenDeadlines returns a listener of the connections of another one, on which a
// deadline costs little: it is passed on when a call is to end sooner than by the one
// before. A server of HTTP/1 sets six for each request, nearly all of them to put off the
// last or to take it away, and a timer is moved for each. It belongs below TLS. Calls
// end when they would without it.
func ListenDeadlines(l net.Listener) net.Listener { return &deadlineListener{l} }

type deadlineListener struct{ net.Listener }

func (l *deadlineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newDeadlineConn(c), nil
}

// deadlineConn passes deadlines on when they are needed.
type deadlineConn struct {
	net.Conn
	bytes         net.Conn // that reads and writes, and has the deadlines
	began         time.Time
	reads, writes deadline
}

func newDeadlineConn(c net.Conn) *deadlineConn {
	d := &deadlineConn{Conn: c, bytes: wire.Through(c), began: time.Now()}
	d.reads.pass, d.writes.pass = d.bytes.SetReadDeadline, d.bytes.SetWriteDeadline
	return d
}

// deadline is that of the reads of a connection, or of its writes.
type deadline struct {
	pass func(time.Time) error

	mu    sync.Mutex
	asked time.Time // zero: none
	set   time.Time // of the connection below; never later than asked while a call is under way
	calls int       // under way
}

// sooner reports whether one deadline ends a call before another does.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// ask is what sets a deadline.
func (d *deadline) ask(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = t
	if d.calls == 0 || !sooner(t, d.set) {
		return nil
	}
	d.set = t
	return d.pass(t)
}

// begin begins a call, unless its deadline lies before the connection: so servers end
// a read that they have begun, often before it has.
func (d *deadline) begin(began time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sooner(d.asked, began) {
		return os.ErrDeadlineExceeded
	}
	if sooner(d.asked, d.set) || sooner(d.set, began) { // with the latter the call would end at once
		d.set = d.asked
		if err := d.pass(d.set); err != nil {
			return err
		}
	}
	d.calls++
	return nil
}

// goesOn reports whether a call that has ended with err is to go on, as the deadline
// has been put off.
func (d *deadline) goesOn(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && sooner(d.set, d.asked) && errors.Is(err, os.ErrDeadlineExceeded) {
		d.set = d.asked
		if d.pass(d.set) == nil {
			return true
		}
	}
	d.calls--
	return false
}

// Read reads what has come.
func (c *deadlineConn) Read(p []byte) (n int, err error) {
	if err := c.reads.begin(c.began); err != nil {
		return 0, err
	}
	for {
		n, err = c.bytes.Read(p)
		if !c.reads.goesOn(err) {
			return n, err
		}
	}
}

// Write sends p.
func (c *deadlineConn) Write(p []byte) (n int, err error) {
	if err := c.writes.begin(c.began); err != nil {
		return 0, err
	}
	for {
		var m int
		m, err = c.bytes.Write(p[n:])
		if n += m; !c.writes.goesOn(err) {
			return n, err
		}
	}
}

// SetReadDeadline sets the deadline of reads.
func (c *deadlineConn) SetReadDeadline(t time.Time) error { return c.reads.ask(t) }

// SetWriteDeadline sets the deadline of writes.
func (c *deadlineConn) SetWriteDeadline(t time.Time) error { return c.writes.ask(t) }

// SetDeadline sets both.
func (c *deadlineConn) SetDeadline(t time.Time) error {
	return errors.Join(c.reads.ask(t), c.writes.ask(t))
}

// NetConn returns the connection below.
func (c *deadlineConn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what the client is sent and leaves what it sends open. It is an
// error where the connection below cannot do that.
func (c *deadlineConn) CloseWrite() error { return wire.CloseWrite(c.Conn) }
