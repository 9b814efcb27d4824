// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/sluicegate/sluice"
)

// node sends commands to one server, over one connection that all callers share. It dials
// when a call needs a connection and there is none.
type node struct {
	addr           string
	tls            *tls.Config // nil without TLS
	user, password string      // empty without AUTH

	turn  chan struct{} // has an element while a call dials or writes
	conn  *conn         // nil before the first call
	ended bool
}

func newNode(s *Server) *node {
	return &node{addr: s.Addr, tls: s.tls, user: s.user, password: s.password, turn: make(chan struct{}, 1)}
}

func (n *node) close() {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if n.ended = true; n.conn != nil {
		n.conn.fail(net.ErrClosed)
	}
}

// send sends commands and returns their replies, when ctx ends at the latest.
func (n *node) send(ctx context.Context, commands [][]string) []Reply {
	c := &calls{replies: make([]Reply, 0, len(commands)), n: len(commands), done: make(chan struct{})}
	if err := n.write(ctx, commands, c); err != nil {
		return failed(len(commands), err)
	}
	select {
	case <-c.done:
		return c.replies
	case <-ctx.Done():
		return failed(len(commands), ctx.Err())
	}
}

func failed(n int, err error) []Reply {
	replies := make([]Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// write writes commands. An error means that nothing was written.
func (n *node) write(ctx context.Context, commands [][]string, c *calls) error {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return &sluice.NotSentError{Err: ctx.Err()}
	}
	for {
		switch {
		case n.ended:
			return &sluice.NotSentError{Err: net.ErrClosed}
		case ctx.Err() != nil:
			return &sluice.NotSentError{Err: ctx.Err()}
		case n.conn != nil && n.conn.add(c):
			n.conn.write(ctx, commands)
			return nil
		}
		var err error
		if n.conn, err = n.dial(ctx); err != nil {
			return &sluice.NotSentError{Err: err}
		}
	}
}

// dial makes a connection.
func (n *node) dial(ctx context.Context) (*conn, error) {
	var dialer interface {
		DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	} = &net.Dialer{}
	if n.tls != nil {
		dialer = &tls.Dialer{Config: n.tls}
	}
	under, err := dialer.DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: under}
	go c.read()
	if n.user == "" && n.password == "" {
		return c, nil
	}
	auth := &calls{n: 1, done: make(chan struct{})}
	c.add(auth)
	c.write(ctx, [][]string{{"AUTH", n.user, n.password}})
	select {
	case <-auth.done:
		err = auth.replies[0].Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.fail(err)
		return nil, err
	}
	return c, nil
}

// conn is a connection. A goroutine reads the replies.
type conn struct {
	net.Conn
	mu      sync.Mutex
	waiting []*calls // in the order of their commands
	err     error    // the reason why the connection has ended
}

// calls are commands that are sent together.
type calls struct {
	replies []Reply
	n       int           // of the commands
	done    chan struct{} // closed when all have a reply
}

// add appends calls whose commands are written next. It reports false if the connection has
// ended.
func (c *conn) add(next *calls) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.waiting = append(c.waiting, next)
	}
	return c.err == nil
}

func (c *conn) write(ctx context.Context, commands [][]string) {
	var b []byte
	for _, words := range commands {
		b = fmt.Appendf(b, "*%d\r\n", len(words))
		for _, w := range words {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	end, _ := ctx.Deadline() // zero without one
	err := c.SetWriteDeadline(end)
	if err == nil {
		_, err = c.Write(b)
	}
	if err != nil {
		c.fail(err)
	}
}

// read reads replies until the connection ends.
func (c *conn) read() {
	for r := bufio.NewReader(c.Conn); ; {
		reply, err := readReply(r)
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		if len(c.waiting) > 0 {
			first := c.waiting[0]
			if first.replies = append(first.replies, reply); len(first.replies) == first.n {
				close(first.done)
				c.waiting = c.waiting[1:]
			}
		}
		c.mu.Unlock()
	}
}

// fail ends the connection. Commands without a reply get err.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, w := range c.waiting {
		w.replies = append(w.replies, failed(w.n-len(w.replies), err)...)
		close(w.done)
	}
	c.waiting = nil
	_ = c.Close() // it may have ended by itself
}

func readReply(r *bufio.Reader) (Reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return Reply{}, err
	}
	if len(line) < len("+\r\n") {
		return Reply{}, fmt.Errorf("a reply begins with %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ':':
		return Reply{Text: text}, nil
	case '-':
		return Reply{Err: errors.New(text), Refused: true}, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || kind != '$' && kind != '*':
		return Reply{}, fmt.Errorf("a reply begins with %q", line)
	case n < 0:
		return Reply{}, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err = io.ReadFull(r, b)
		return Reply{Text: string(b[:n])}, err
	}
	list := make([]Reply, n)
	for i := range list {
		if list[i], err = readReply(r); err != nil {
			return Reply{}, err
		}
	}
	return Reply{List: list}, nil
}
