// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/sampledlog"
)

// ErrServerClosed is returned by Serve after Shutdown or Close.
var ErrServerClosed = errors.New("tcp: server closed")

// Server passes connections on under limits. It is safe for concurrent use.
type Server struct {
	opts   Options // Upstream and Limits are the initial ones
	terms  atomic.Pointer[terms]
	owner  string // owner of this server's slots
	log    sampledlog.Log
	serial atomic.Uint64

	accepted, denied, sent, received atomic.Int64
	inside                           atomic.Int64 // connections with a place

	mu        sync.Mutex
	closed    chan struct{}
	listeners map[net.Listener]struct{}
	cuts      map[uint64]context.CancelFunc // of every connection
	handlers  sync.WaitGroup
}

// Stats are counts since a [Server] was made, except for Open.
type Stats struct {
	Open     int   // current connections
	Accepted int64 // all connections
	Denied   int64 // of these, refused by a limit or Admit
	Received int64 // bytes from clients to the upstream
	Sent     int64 // bytes from the upstream to clients
}

// New returns a Server.
func New(o Options) (*Server, error) {
	t, err := newTerms(&o, o.Upstream, o.Limits)
	if err != nil {
		return nil, err
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	s := &Server{
		opts:      o,
		owner:     rand.Text(),
		log:       sampledlog.Log{Logger: o.Log, Part: "tcp front"},
		closed:    make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		cuts:      make(map[uint64]context.CancelFunc),
	}
	s.terms.Store(t)
	return s, nil
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.cuts)
	s.mu.Unlock()
	return Stats{
		Open: open, Accepted: s.accepted.Load(), Denied: s.denied.Load(),
		Received: s.received.Load(), Sent: s.sent.Load(),
	}
}

// Serve passes on the connections of l until the Server is closed, and closes l. It always
// returns an error: [ErrServerClosed], or that of l.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.isClosed() {
		s.mu.Unlock()
		return errors.Join(ErrServerClosed, l.Close())
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	err := s.accept(l)
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	if s.isClosed() {
		return ErrServerClosed
	}
	return errors.Join(err, l.Close())
}

// accept starts a handler for each connection. When the system lacks a resource it waits, with
// a growing pause of up to a second.
func (s *Server) accept(l net.Listener) error {
	const first, most = 5 * time.Millisecond, time.Second
	pause := first
	for {
		conn, err := l.Accept()
		if err == nil {
			pause = first
			s.start(conn)
			continue
		}
		//nolint:staticcheck // net/http checks the same, and there is no other way
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() || s.isClosed() {
			return fmt.Errorf("tcp: accept: %w", err)
		}
		s.log.Warn(context.Background(), "accept failed", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.closed:
			timer.Stop()
		}
		pause = min(2*pause, most)
	}
}

// start handles conn in a goroutine that the Server waits for.
func (s *Server) start(conn net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	id := s.serial.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		cancel()
		conn.Close() //nolint:errcheck // it was never used
		return
	}
	s.accepted.Add(1)
	s.cuts[id] = cancel
	s.handlers.Go(func() {
		defer func() {
			cancel()
			s.mu.Lock()
			delete(s.cuts, id)
			s.mu.Unlock()
		}()
		s.handle(ctx, cancel, conn, s.owner+"-"+strconv.FormatUint(id, 36))
	})
}

// Shutdown stops accepting and waits until all connections have ended. If ctx ends first, it
// cuts the remaining ones and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop()
	done := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		s.cut()
		<-done
		return errors.Join(err, ctx.Err())
	}
}

// Close stops accepting and cuts all connections.
func (s *Server) Close() error {
	err := s.stop()
	s.cut()
	s.handlers.Wait()
	return err
}

// stop closes the listeners.
func (s *Server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil
	}
	close(s.closed)
	var faults []error
	for l := range s.listeners {
		faults = append(faults, l.Close())
	}
	return errors.Join(faults...)
}

func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.cuts {
		cancel()
	}
}

func (s *Server) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}
