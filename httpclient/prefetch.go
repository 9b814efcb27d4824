// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"io"
	"net/http"
	"sync"
)

// mostAhead is the most of a body that is read ahead.
const mostAhead = 16 << 10

// aheadBody is a body whose beginning is read in the background, so that a small body leaves
// its connection while its request waits. Close ends the reading.
type aheadBody struct {
	rest  io.Reader
	close func() error

	mu       sync.Mutex
	came     sync.Cond
	buf      []byte
	from, to int   // buf[from:to] has not been returned
	done     bool  // reading in the background has ended
	err      error // the reason, unless buf is full
}

// readAhead reads a small body, or the beginning of a body of unknown length, in the
// background. It returns at once; the new body of res is complete.
func readAhead(res *http.Response) {
	if res.ContentLength > mostAhead || res.Body == nil || res.Body == http.NoBody {
		return
	}
	size := int64(mostAhead)
	if res.ContentLength >= 0 {
		size = res.ContentLength + 1 // one more, to see its end
	}
	b := &aheadBody{rest: res.Body, close: sync.OnceValue(res.Body.Close), buf: make([]byte, size)}
	b.came.L = &b.mu
	res.Body = b
	go b.fill()
}

// fill reads ahead until the body ends, is closed, or fills the buffer.
func (b *aheadBody) fill() {
	for to := 0; ; {
		n, err := b.rest.Read(b.buf[to:])
		to += n
		if err == io.EOF {
			_ = b.close() // it has been read to its end
		}
		b.mu.Lock()
		b.to, b.err, b.done = to, err, err != nil || to == len(b.buf)
		done := b.done
		b.came.Broadcast()
		b.mu.Unlock()
		if done {
			return
		}
	}
}

// Read returns the bytes read ahead, and then the rest.
func (b *aheadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	for b.from == b.to && !b.done {
		b.came.Wait()
	}
	n, err := copy(p, b.buf[b.from:b.to]), b.err
	b.from += n
	left := b.from < b.to
	b.mu.Unlock()
	switch {
	case n > 0 || left:
		return n, nil
	case err != nil:
		return 0, err
	}
	return b.rest.Read(p)
}

// Close ends a Read that waits.
func (b *aheadBody) Close() error { return b.close() }
