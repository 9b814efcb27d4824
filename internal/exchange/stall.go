// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// stall closes connections that stand still.
type stall struct {
	x        *Exchange
	d        time.Duration // 0: they may
	reads    bool          // the request has a body
	stream   bool          // of HTTP/2, which a deadline ends also if nothing is written
	switched bool          // protocol: a body may still be read, by another goroutine
	cut      atomic.Bool   // nothing of the response is sent any more

	mu    sync.Mutex    // of reads, which the writer of the response may set free
	asks  bool          // the client is yet to be told to send the body
	free  bool          // the body may stand still
	ended bool          // nothing of the body is read any more
	busy  bool          // a read is under way
	idle  chan struct{} // closed when none is, if somebody waits for that
	rate  rate          // of the body
}

func (s *stall) begin(d time.Duration, r *http.Request) {
	s.stream = r.ProtoMajor > 1
	s.d = d
	if s.x.body.source == nil {
		return
	}
	if err := s.x.control().SetReadDeadline(time.Time{}); err != nil {
		s.d = 0 // no connection, as in a test
		return
	}
	s.reads = true
	s.asks = !s.stream && r.Header["Expect"] != nil
}

// write puts off the deadline of a write.
func (s *stall) write() error {
	switch {
	case s.cut.Load():
		return errCut
	case s.d == 0:
		return nil
	}
	err := s.x.setWriteDeadline(time.Now().Add(s.d))
	if s.cut.Load() { // meanwhile, and that deadline may be lost
		return errors.Join(errCut, s.x.setWriteDeadline(past))
	}
	if errors.Is(err, http.ErrNotSupported) {
		s.d = 0
		return nil
	}
	return err
}

// rest takes the deadline of a stream away while its handler is silent. On a
// connection it does no harm before the next write.
func (s *stall) rest() {
	if s.stream && s.d > 0 {
		_ = s.x.setWriteDeadline(time.Time{}) // an error means that it is gone
	}
}

// reading puts off the deadline of a read that begins.
func (s *stall) reading() error {
	if !s.reads {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return os.ErrDeadlineExceeded
	}
	if !s.free {
		now := time.Now()
		if err := s.x.control().SetReadDeadline(now.Add(s.rate.bound(now, s.d))); err != nil {
			return err
		}
	}
	if s.asks {
		s.asks = false
		s.goOn()
	}
	s.busy = true
	return nil
}

// goOn bounds for how long the server, which tells the client by the first read to send the
// body, waits for it to take that. An error means that the connection is gone, as the
// read will.
func (s *stall) goOn() {
	_ = s.x.setWriteDeadline(time.Now().Add(s.d))
	if s.cut.Load() { // meanwhile, and that deadline may be lost
		_ = s.x.setWriteDeadline(past)
	}
}

// came ends a read, and counts n bytes of the body that have been read.
func (s *stall) came(n int) {
	if !s.reads {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	if s.rate.least > 0 {
		s.rate.came(time.Now(), n, s.d)
	}
}

// late reports a body that is cut off as it was too slow, once, and not of one
// that stood still for as long as any may.
func (s *stall) late() {
	s.mu.Lock()
	report := s.rate.short && !s.free && !s.ended
	s.rate.short = false
	s.mu.Unlock()
	if report {
		s.rate.slow()
	}
}

// streams takes the deadline of reads away for good.
func (s *stall) streams() {
	if !s.reads {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = true
	_ = s.x.control().SetReadDeadline(time.Time{}) // an error means that it is gone
}

// readAll takes the deadline of reads away: behind a body the server only watches
// whether the client is still there, for as long as the handler takes.
func (s *stall) readAll() error {
	if !s.reads {
		return nil
	}
	return s.x.control().SetReadDeadline(time.Time{})
}

// finish bounds what the server still does by itself: sending what is buffered
// and reading what is left of the body.
func (s *stall) finish() {
	if s.d == 0 || s.switched {
		return
	}
	_ = s.write() // an error means that the connection is gone, or the response cut: nothing is left to be bounded
	if s.reads {
		s.endReads()
	}
}

// endReads ends a read of the body that a transport has begun, and bounds what the
// server reads by itself. Over HTTP/1 it would end that read, too, and then take the
// deadline away for all that follow.
func (s *stall) endReads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	cut := s.ended
	s.ended = true
	if s.busy && !s.stream {
		idle := make(chan struct{})
		s.idle = idle
		_ = s.x.control().SetReadDeadline(past)
		s.mu.Unlock()
		<-idle
		s.mu.Lock()
	}
	if !cut {
		now := time.Now()
		_ = s.x.control().SetReadDeadline(now.Add(s.rate.bound(now, s.d)))
	}
}
