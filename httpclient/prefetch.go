// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"io"
	"net/http"
	"sync"
)

// mostAhead is how much of a body is read ahead.
const mostAhead = 16 << 10

// aheadBody is a body whose beginning is read in the background, before it is asked for:
// one that is small comes off its connection, which need not wait with us.
// Closing it ends that.
type aheadBody struct {
	rest  io.Reader
	close func() error

	mu       sync.Mutex
	came     sync.Cond
	buf      []byte
	from, to int   // what of buf is there and has not been handed on
	done     bool  // nothing more is read in the background
	err      error // what ended it, if not that buf is full
}

// readAhead lets what may be small of the body be read while nobody waits for
// it. It returns at once, and nothing is lost of the body that res has then.
func readAhead(res *http.Response) {
	if res.ContentLength > mostAhead || res.Body == nil || res.Body == http.NoBody {
		return
	}
	size := int64(mostAhead)
	if res.ContentLength >= 0 {
		size = res.ContentLength + 1 // for its end to be seen
	}
	b := &aheadBody{rest: res.Body, close: sync.OnceValue(res.Body.Close), buf: make([]byte, size)}
	b.came.L = &b.mu
	res.Body = b
	go b.fill()
}

// fill reads ahead until the body has ended or is closed, or is not small.
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

// Read hands on what was read ahead, and then the rest.
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
