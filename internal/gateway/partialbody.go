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
	left int64         // of the length
	conn *upstreamConn // that says when a read has to wait; nil: each may have to

	mu      sync.Mutex
	reading bool        // a read is under way
	waits   bool        // and has to wait
	timer   *time.Timer // nil: none was needed yet
}

// readier is a body that may know whether a read returns at once.
type readier interface{ Ready() bool }

// begin takes the place of a response's body, where a part of that may have to wait, that
// comes over a connection, nil if it is not known.
func (b *partialBody) begin(resp *http.Response, w http.ResponseWriter, conn *upstreamConn) {
	if resp.ContentLength <= 0 || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	b.ReadCloser, b.w, b.left = resp.Body, w, resp.ContentLength
	resp.Body = b
	if conn != nil && resp.ProtoMajor == 1 { // one of HTTP/2 carries several
		b.conn = conn
		conn.body.Store(b)
	}
}

// Close closes the body.
func (b *partialBody) Close() error {
	if b.conn != nil {
		b.conn.body.CompareAndSwap(b, nil) // that keeps all of the response in memory
	}
	return b.ReadCloser.Close()
}

func (b *partialBody) Read(p []byte) (int, error) {
	r, ok := b.ReadCloser.(readier)
	if b.left <= 0 || ok && r.Ready() {
		return b.read(p)
	}
	b.mu.Lock()
	b.reading = true
	b.mu.Unlock()
	defer b.goOn()
	if b.conn == nil {
		b.wait()
	}
	return b.read(p)
}

func (b *partialBody) read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// wait says that the read that is under way may have to wait. Where none is, the
// connection is read from for what comes behind the response.
func (b *partialBody) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reading {
		return
	}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.waits {
		b.waits = false
		b.timer.Stop()
	}
}
