// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
)

// Bounds of a connection.
const (
	idleTimeout    = time.Hour
	commandTimeout = 10 * time.Second // for the rest of a command, and for a peer to read
	mostBatch      = 256              // decisions
	mostOutput     = 64 << 10         // bytes of answers that are not sent
	mostFailures   = 8                // of AUTH
	smallBuffer    = 4 << 10          // bytes for an idle connection
)

// conn is a connection. It belongs to the goroutine of serve.
type conn struct {
	net.Conn
	front *listener
	id    int64
	proto int    // 2 or 3
	name  string // that the client has given itself
	peer  string // its address

	buffer []byte // what was read, and not parsed: the first n bytes
	n      int
	half   bool // the deadline is that of a command's rest

	active   *active                           // under which the token is valid
	user     string                            // the name of the token; empty: none
	rights   func(operation, rule string) bool // of the token
	secret   string                            // of the token
	failures int                               // of AUTH
	quits    bool
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	defer func() {
		c.front.mu.Lock()
		delete(c.front.conns, c)
		c.front.mu.Unlock()
		_ = c.Close()
	}()
	if secure, ok := c.Conn.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(c.front.ctx, commandTimeout)
		err := secure.HandshakeContext(ctx)
		if cancel(); err != nil {
			return
		}
	}
	c.peer = c.RemoteAddr().String()
	if !c.front.current.Load().admits.Admits(clientip.Peer(c.peer)) {
		c.end(refusedAddress, "NOPERM clients at this address are not admitted")
		return
	}
	for !c.quits && c.read() {
		s, ok := c.front.resp.sessions.Get().(*session)
		if !ok {
			s = new(session)
		}
		s.conn = c
		s.answer()
		s.conn = nil
		c.front.resp.sessions.Put(s)
	}
}

// end refuses further commands.
func (c *conn) end(why refusal, text string) {
	c.front.resp.refused[why].Add(1)
	c.quits = true
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(appendError(nil, text)) // the peer may be gone
}

// read reads what has come, and waits until something comes.
func (c *conn) read() bool {
	if c.n == 0 && len(c.buffer) != smallBuffer {
		c.buffer = make([]byte, smallBuffer)
	}
	if c.n == len(c.buffer) {
		c.buffer = append(make([]byte, 0, 2*c.n), c.buffer...)[:2*c.n]
	}
	if wait := idleTimeout; !c.half {
		if c.half = c.n > 0; c.half {
			wait = commandTimeout
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
	}
	if c.front.closing.Load() { // its deadline may have come before this one
		return false
	}
	n, err := c.Read(c.buffer[c.n:])
	c.n += n
	switch {
	case n > 0 || err == nil:
		return true
	case !errors.Is(err, os.ErrDeadlineExceeded) || c.front.closing.Load():
	case c.half:
		c.end(refusedHalf, fmt.Sprintf("ERR the command did not end within %v; the connection is closed", commandTimeout))
	default:
		c.end(refusedIdle, fmt.Sprintf("ERR no command came for %v; the connection is closed", idleTimeout))
	}
	return false
}

// session answers commands that have come together. Decisions that follow one another are made
// in one batch.
type session struct {
	*conn
	args     [][]byte
	out      []byte
	asks     []ask
	requests []sluice.Request // of asks, apart from those that need none
	results  []sluice.Result
}

// answer answers the complete commands in the buffer.
func (s *session) answer() {
	a := s.front.current.Load()
	if s.conn.active != a { // tokens may have changed
		if s.conn.active = a; s.user != "" && a.tokens != nil {
			s.user, s.rights = a.tokens(s.secret)
		}
	}
	at, taken := 0, true
	for taken && !s.quits {
		args, n, err := parse(s.buffer[at:s.n], s.args[:0])
		if s.args = args; err != nil {
			s.flush()
			s.out = appendError(s.out, "ERR Protocol error: "+err.Error())
			s.refuse(refusedProtocol)
			s.quits = true
			break
		}
		if n == 0 {
			break
		}
		at, s.half = at+n, false
		if len(args) > 0 {
			s.do(args)
		}
		if len(s.asks) == mostBatch {
			s.flush()
		}
		if len(s.out) >= mostOutput {
			taken = s.send()
		}
	}
	if s.flush(); taken {
		s.send()
	}
	s.out = s.out[:0]
	s.n = copy(s.buffer, s.buffer[at:s.n])
	clear(s.args) // they are parts of the buffer
	s.args = s.args[:0]
}

// send sends the answers, and reports whether the peer has taken them.
func (s *session) send() bool {
	if len(s.out) == 0 {
		return true
	}
	_ = s.SetWriteDeadline(time.Now().Add(commandTimeout))
	_, err := s.Write(s.out)
	if s.out = s.out[:0]; cap(s.out) > 2*mostOutput {
		s.out = nil
	}
	if err == nil {
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.refuse(refusedUnread)
	}
	s.quits = true
	return false
}

func (s *session) refuse(why refusal) { s.front.resp.refused[why].Add(1) }

// fail answers with an error, behind the answers before it.
func (s *session) fail(why refusal, format string, args ...any) {
	s.flush()
	s.refuse(why)
	s.out = appendError(s.out, fmt.Sprintf(format, args...))
}
