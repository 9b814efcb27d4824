// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/sluicegate/sluice/policy"
)

var errBody = &policy.PartError{Part: policy.Func("the request's body", nil), Problem: "cannot be read"}

// onHold watches a delayed request: an error of reading its body ends the delay.
func (m *Middleware) onHold(ctx context.Context, a policy.Attributes) (context.Context, func()) {
	of, ok := a.(*attributes)
	if !ok {
		return ctx, func() {}
	}
	held, cancel := context.WithCancelCause(ctx)
	ahead := of.of.readAhead(m.opts.ReadAhead, func() { cancel(errBody) })
	return held, func() {
		if ahead != nil {
			ahead.over()
		}
		cancel(nil)
	}
}

// ahead is a body that is read while its request is delayed. net/http notices that a client of
// HTTP/1 has hung up only while a reader reads the body or, after its end, by reading itself.
// So it is noticed as long as the client has not sent more than mostKept bytes of a body, and
// there is room for them; otherwise it is noticed after the delay.
type ahead struct {
	body   io.ReadCloser
	length int64         // of the body; negative: not known
	broken func()        // called when the body cannot be read
	room   *ReadAhead    // bounds the kept bytes
	done   chan struct{} // closed when reading ahead has ended

	mu      sync.Mutex
	stop    bool // the delay is over
	dropped bool // the request is over
	reading bool // into the unused end of the last chunk
	kept    []chunk
	came    int64 // bytes received in all
	err     error // how the body ended
}

// chunk is a part of a body. Its capacity is counted in room.
type chunk struct {
	bytes []byte
	next  int // the first byte that has not been returned
}

// readAhead begins to read the request's body, and replaces it by the result. It returns nil
// where that is not needed: over HTTP/2 the connection reports that a client has left.
func (q *Request) readAhead(room *ReadAhead, broken func()) *ahead {
	if q.r.ProtoMajor >= 2 || q.r.Body == nil || q.r.Body == http.NoBody || q.r.ContentLength == 0 {
		return nil
	}
	a := &ahead{length: q.r.ContentLength, broken: broken, room: room, done: make(chan struct{})}
	put := func(body io.ReadCloser) io.ReadCloser {
		a.body = body
		return a
	}
	if q.w == nil {
		copied := *q.r // the caller's request keeps its body
		copied.Body = put(q.r.Body)
		q.r = &copied
	} else {
		q.exchange().Body().Wrap(put)
	}
	q.ahead = a
	go a.run()
	return a
}

// run reads until the body ends, the bound is reached, there is no room or, after one more
// Read, the delay is over. Like any Read of a body, that Read may block as long as the client
// sends nothing, and net/http waits for it.
func (a *ahead) run() {
	defer close(a.done)
	for {
		into := a.grow()
		if into == nil {
			return
		}
		n, err := a.body.Read(into)
		if a.take(n, err) {
			return
		}
	}
}

// grow returns the buffer for the next bytes, nil if no more are to be read.
func (a *ahead) grow() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	// One byte beyond mostKept distinguishes a body of that size from a larger one.
	size := mostKept + 1 - a.came
	if a.stop || size <= 0 {
		return nil
	}
	if n := len(a.kept); n == 0 || len(a.kept[n-1].bytes) == cap(a.kept[n-1].bytes) {
		if a.length >= a.came {
			size = min(size, a.length+1-a.came)
		}
		size = min(size, chunkSize)
		if !a.room.take(size, a.came == 0) {
			return nil
		}
		a.kept = append(a.kept, chunk{bytes: make([]byte, 0, size)})
	}
	a.reading = true
	last := a.kept[len(a.kept)-1].bytes
	return last[len(last):cap(last)]
}

// take keeps n bytes that were read. It reports whether reading ahead has ended.
func (a *ahead) take(n int, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := &a.kept[len(a.kept)-1]
	last.bytes, a.came, a.reading = last.bytes[:len(last.bytes)+n], a.came+int64(n), false
	if errors.Is(err, io.EOF) && a.length >= 0 && a.came != a.length {
		err = io.ErrUnexpectedEOF
	}
	if a.err = err; err != nil && !errors.Is(err, io.EOF) {
		a.broken()
	}
	a.free()
	return err != nil
}

// free gives back the chunks that have been returned. The caller holds mu.
func (a *ahead) free() {
	for len(a.kept) > 0 {
		first := &a.kept[0]
		if a.reading && len(a.kept) == 1 || !a.dropped && first.next < len(first.bytes) {
			return
		}
		a.room.giveBack(int64(cap(first.bytes)))
		a.kept = a.kept[1:]
	}
	a.kept = nil
}

// over ends reading ahead when the delay is over.
func (a *ahead) over() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = true
}

// drop gives the kept bytes back when the request is over.
func (a *ahead) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop, a.dropped = true, true
	a.free()
}

// Read returns the bytes read ahead, and then the rest of the body.
func (a *ahead) Read(p []byte) (int, error) {
	n, err := a.next(p)
	if n == 0 && err == nil && len(p) > 0 {
		<-a.done // bytes being read come first
		if n, err = a.next(p); n == 0 && err == nil {
			return a.body.Read(p)
		}
	}
	return n, err
}

// next returns kept bytes and, after them, the error that ended the body.
func (a *ahead) next(p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped {
		return 0, http.ErrBodyReadAfterClose
	}
	for i := range a.kept {
		c := &a.kept[i]
		m := copy(p[n:], c.bytes[c.next:])
		c.next, n = c.next+m, n+m
	}
	a.free()
	if n == 0 && len(a.kept) == 0 {
		err = a.err
	}
	return n, err
}

// Close closes the body.
func (a *ahead) Close() error {
	a.drop()
	return a.body.Close()
}
