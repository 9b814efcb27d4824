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

// stall closes connections without progress.
type stall struct {
	x        *Exchange
	d        time.Duration // how long a connection may stand still; 0: without a bound
	reads    bool          // the request has a body
	stream   bool          // of HTTP/2: a deadline ends it also while nothing is written
	switched bool          // the protocol was switched: another goroutine may still read the body
	cut      atomic.Bool   // the response is cut off

	mu              sync.Mutex    // guards the reads' state, which the writer of the response may change
	expectsContinue bool          // the client waits for 100 Continue
	unbounded       bool          // the body may stand still for any time
	ended           bool          // no read of the body follows
	busy            bool          // a read is under way
	idle            chan struct{} // closed at the end of a read; nil: nobody waits
	rate            rate          // of the body
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
	s.expectsContinue = !s.stream && r.Header["Expect"] != nil
}

// write extends the deadline of writes.
func (s *stall) write() error {
	switch {
	case s.cut.Load():
		return errCut
	case s.d == 0:
		return nil
	}
	err := s.x.setWriteDeadline(time.Now().Add(s.d))
	if s.cut.Load() { // cut meanwhile: this call may have replaced its deadline
		return errors.Join(errCut, s.x.setWriteDeadline(past))
	}
	if errors.Is(err, http.ErrNotSupported) {
		s.d = 0
		return nil
	}
	return err
}

// clearWriteDeadline removes the deadline of a stream while its handler is silent. A
// deadline of a connection does no harm before the next write.
func (s *stall) clearWriteDeadline() {
	if s.stream && s.d > 0 {
		_ = s.x.setWriteDeadline(time.Time{}) // an error means that the connection is gone
	}
}

// beginRead extends the deadline of reads for one that begins.
func (s *stall) beginRead() error {
	if !s.reads {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return os.ErrDeadlineExceeded
	}
	if !s.unbounded {
		now := time.Now()
		if err := s.x.control().SetReadDeadline(now.Add(s.rate.bound(now, s.d))); err != nil {
			return err
		}
	}
	if s.expectsContinue {
		s.expectsContinue = false
		s.boundContinue()
	}
	s.busy = true
	return nil
}

// boundContinue bounds the write of 100 Continue, which the first read makes. An error
// means that the connection is gone; the read reports it, too.
func (s *stall) boundContinue() {
	_ = s.x.setWriteDeadline(time.Now().Add(s.d))
	if s.cut.Load() { // cut meanwhile: this call may have replaced its deadline
		_ = s.x.setWriteDeadline(past)
	}
}

// readDone ends a read of n bytes.
func (s *stall) readDone(n int) {
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

// reportSlow reports once that a body was cut off for its rate. A body that stood still
// is not reported.
func (s *stall) reportSlow() {
	s.mu.Lock()
	report := s.rate.short && !s.unbounded && !s.ended
	s.rate.short = false
	s.mu.Unlock()
	if report {
		s.rate.slow()
	}
}

// unboundReads removes the deadline of reads for good.
func (s *stall) unboundReads() {
	if !s.reads {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unbounded = true
	_ = s.x.control().SetReadDeadline(time.Time{}) // an error means that the connection is gone
}

// readAll removes the deadline of reads behind the body: the server then only watches
// whether the client leaves, for as long as the handler runs.
func (s *stall) readAll() error {
	if !s.reads {
		return nil
	}
	return s.x.control().SetReadDeadline(time.Time{})
}

// finish bounds the server's own work after the handler: it sends its buffer and reads
// the rest of the body.
func (s *stall) finish() {
	if s.d == 0 || s.switched {
		return
	}
	_ = s.write() // after an error the connection is gone or the response cut: there is nothing to bound
	if s.reads {
		s.endReads()
	}
}

// endReads ends a read of the body that a transport has begun, and bounds the server's
// own reads. Over HTTP/1 net/http would end that read, too, and then remove the deadline
// of all reads that follow.
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
