// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// flushInterval is how long a part of a response of known length may wait for
// more of it. Others, and server-sent events, go on at once by ReverseProxy's
// own rule. None at all would send every header by itself, from a goroutine made
// for it: a fifth of what a small response costs.
const flushInterval = time.Millisecond

// partialBody is the body of a response of known length, which has the client sent
// what there is while a read waits for more. ReverseProxy can do that, too, by a
// timer for each response; most of them are there whole by the time that they are read.
type partialBody struct {
	io.ReadCloser
	w    http.ResponseWriter
	left int64 // of the length

	mu    sync.Mutex
	waits bool        // a read does
	timer *time.Timer // nil: none was needed yet
}

// readier is a body that may know whether a read returns at once.
type readier interface{ Ready() bool }

// begin takes the place of a response's body, where a part of that may have to wait.
func (b *partialBody) begin(resp *http.Response, w http.ResponseWriter) {
	if resp.ContentLength > 0 && resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		b.ReadCloser, b.w, b.left = resp.Body, w, resp.ContentLength
		resp.Body = b
	}
}

func (b *partialBody) Read(p []byte) (int, error) {
	r, ok := b.ReadCloser.(readier)
	if b.left <= 0 || ok && r.Ready() {
		return b.read(p)
	}
	b.wait()
	defer b.goOn()
	return b.read(p)
}

func (b *partialBody) read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

func (b *partialBody) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = true
	if b.timer == nil {
		b.timer = time.AfterFunc(flushInterval, b.expire)
	} else {
		b.timer.Reset(flushInterval)
	}
}

// expire sends what there is, unless that goes on already. One that comes when another
// read waits is early, which does no harm.
func (b *partialBody) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits {
		b.waits = false
		_ = http.NewResponseController(b.w).Flush() // an error means that the client is gone, which a write will report
	}
}

func (b *partialBody) goOn() {
	b.timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = false
}
