// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package feed sends the same events to many web pages as server-sent events. It has no
// goroutine of its own.
package feed

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	backlog      = 4               // most events that a reader may be behind
	writeTimeout = 5 * time.Second // for one event
	contentType  = "text/event-stream"
)

// Feed sends events to its readers. It is safe for concurrent use.
type Feed struct {
	most int

	mu      sync.Mutex
	readers map[*reader]struct{}
	closed  bool
}

// reader is an open page.
type reader struct {
	events chan []byte // closed when the feed ends the reader
}

// New returns a Feed of most readers, at least 1.
func New(most int) *Feed {
	return &Feed{most: max(most, 1), readers: make(map[*reader]struct{})}
}

// Readers returns the number of readers.
func (f *Feed) Readers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers)
}

// Send sends an event, in its form on the wire, to all readers. It does not block: a reader
// that is too far behind is dropped. The event must not be changed afterwards.
func (f *Feed) Send(event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		select {
		case r.events <- event:
		default:
			f.leave(r)
		}
	}
}

// Restart ends the streams of all readers, whose pages then reconnect.
func (f *Feed) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.readers {
		f.leave(r)
	}
}

// Close ends the streams of all readers, and refuses new ones.
func (f *Feed) Close() {
	f.Restart()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for r := range f.readers { // those that came in between
		f.leave(r)
	}
}

func (f *Feed) leave(r *reader) {
	if _, ok := f.readers[r]; ok {
		delete(f.readers, r)
		close(r.events)
	}
}

var (
	errFull   = errors.New("feed: too many pages are open; close one")
	errClosed = errors.New("feed: the program is stopping")
)

func (f *Feed) enter() (*reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, errClosed
	case len(f.readers) >= f.most:
		return nil, errFull
	}
	r := &reader{events: make(chan []byte, backlog)}
	f.readers[r] = struct{}{}
	return r, nil
}

// Serve sends events to w until its page is closed or the feed ends the stream. A HEAD request
// gets the header alone. If Serve returns an error it has written nothing.
func (f *Feed) Serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	if r.Method == http.MethodHead {
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-store")
		return nil
	}
	of, err := f.enter()
	if err != nil {
		return err
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.leave(of)
	}()
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Time{}); err != nil { // the request's deadline would end the response
		return err
	}
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy in between must pass on each event
	w.WriteHeader(http.StatusOK)
	if !send(w, c, []byte("retry: 2000\n\n")) {
		return nil
	}
	for {
		select {
		case event, open := <-of.events:
			if !open || !send(w, c, event) {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// send writes an event, and reports whether that succeeded.
func send(w io.Writer, c *http.ResponseController, event []byte) bool {
	if c.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	_, err := w.Write(event)
	return err == nil && c.Flush() == nil
}
