// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
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
	reads, writes deadline
}

func newDeadlineConn(c net.Conn) *deadlineConn {
	d := &deadlineConn{Conn: c, bytes: wire.Through(c)}
	began := time.Now()
	d.reads.init(began, d.bytes.SetReadDeadline)
	d.writes.init(began, d.bytes.SetWriteDeadline)
	return d
}

// deadline is that of the reads of a connection, or of its writes, in ns since that began.
// What takes no lock stores what it changes before it looks at what others do, and so does
// what has the lock: of two one sees the other.
type deadline struct {
	pass  func(time.Time) error
	began time.Time
	asked atomic.Int64
	calls atomic.Int64 // under way
	set   atomic.Int64 // of the connection below; not later than asked while a call is under way

	mu sync.Mutex // of what sets set
}

const noDeadline = math.MaxInt64

func (d *deadline) init(began time.Time, pass func(time.Time) error) {
	d.began, d.pass = began, pass
	d.asked.Store(noDeadline)
	d.set.Store(noDeadline)
}

// ask is what sets a deadline.
func (d *deadline) ask(t time.Time) error {
	asked := int64(noDeadline)
	if !t.IsZero() {
		asked = int64(t.Sub(d.began))
	}
	d.asked.Store(asked)
	if d.calls.Load() == 0 || asked >= d.set.Load() {
		return nil
	}
	return d.follow(sooner)
}

// sooner reports whether a call would end too late, and differs whether it would not end
// when it is to.
func sooner(asked, set int64) bool  { return asked < set }
func differs(asked, set int64) bool { return asked != set }

// follow sets the deadline of the connection below to the one that was asked for, if that
// is needed.
func (d *deadline) follow(needed func(asked, set int64) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for asked := d.asked.Load(); needed(asked, d.set.Load()); asked = d.asked.Load() {
		d.set.Store(asked)
		var t time.Time
		if asked != noDeadline {
			t = d.began.Add(time.Duration(asked))
		}
		if err := d.pass(t); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a call, unless its deadline lies before the connection: so servers end
// a read that they have begun, often before it has.
func (d *deadline) begin() (err error) {
	d.calls.Add(1)
	if asked := d.asked.Load(); asked < 0 {
		err = os.ErrDeadlineExceeded
	} else if asked < d.set.Load() {
		err = d.follow(sooner)
	}
	if err != nil {
		d.calls.Add(-1)
	}
	return err
}

// goesOn reports whether a call that has ended with err is to go on, as the deadline
// has been put off.
func (d *deadline) goesOn(err error) bool {
	if err != nil && d.set.Load() < d.asked.Load() && errors.Is(err, os.ErrDeadlineExceeded) && d.follow(differs) == nil {
		return true
	}
	d.calls.Add(-1)
	return false
}

// Read reads what has come.
func (c *deadlineConn) Read(p []byte) (n int, err error) {
	if err := c.reads.begin(); err != nil {
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
	if err := c.writes.begin(); err != nil {
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
