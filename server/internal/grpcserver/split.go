// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"io"
	"net"
	"sync"
	"time"
)

// preface is the beginning of a connection of HTTP/2, with which no request of HTTP/1.1 begins.
const preface = "PRI"

// split is a listener that returns the connections of gRPC, and has another for the rest.
type split struct {
	net.Listener
	grpc, other chan net.Conn
	closed      chan struct{}
	once, close sync.Once
	err         error // why no connection is accepted any more; set before closed is closed
}

func newSplit(of net.Listener) *split {
	s := &split{Listener: of, grpc: make(chan net.Conn), other: make(chan net.Conn), closed: make(chan struct{})}
	go s.run()
	return s
}

// run accepts connections until the listener is closed.
func (s *split) run() {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			s.end(err)
			return
		}
		go s.pass(c)
	}
}

// pass reads the beginning of a connection and passes it on.
func (s *split) pass(c net.Conn) {
	b := &begun{Conn: c}
	_ = c.SetReadDeadline(time.Now().Add(beginTimeout)) // an error shows when it is read
	n, err := io.ReadFull(c, b.room[:])
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	to := s.other
	if b.unread = b.room[:n]; string(b.unread) == preface {
		to = s.grpc
	}
	if err == nil {
		select {
		case to <- b:
			return
		case <-s.closed:
		}
	}
	_ = c.Close()
}

// end records why no connection is accepted any more.
func (s *split) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.closed)
	})
}

func (s *split) accept(from <-chan net.Conn) (net.Conn, error) {
	select {
	case c := <-from:
		return c, nil
	case <-s.closed:
		return nil, s.err
	}
}

// Accept implements [net.Listener].
func (s *split) Accept() (net.Conn, error) { return s.accept(s.grpc) }

// Close implements [net.Listener]. It closes both listeners.
func (s *split) Close() (err error) {
	s.end(net.ErrClosed)
	s.close.Do(func() { err = s.Listener.Close() })
	return err
}

// rest returns the listener of connections that do not begin with HTTP/2.
func (s *split) rest() net.Listener { return rest{s} }

type rest struct{ *split }

func (r rest) Accept() (net.Conn, error) { return r.accept(r.other) }

// begun is a connection whose first bytes have been read.
type begun struct {
	net.Conn
	room   [len(preface)]byte
	unread []byte
}

// Read implements [net.Conn].
func (b *begun) Read(p []byte) (int, error) {
	if len(b.unread) > 0 {
		n := copy(p, b.unread)
		b.unread = b.unread[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}
