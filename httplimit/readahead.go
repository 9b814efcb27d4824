// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import "sync/atomic"

const (
	// mostKept is how much of a body is read while its request is delayed.
	mostKept = 64 << 10 // bytes
	// chunkSize is by how much what is kept of a body grows.
	chunkSize = 4 << 10 // bytes
)

// ReadAhead bounds how many bytes of bodies are kept while their requests are held
// back, of all requests together. A body takes 4 KiB at a time, 64 KiB at most, and
// gives each back when it has been read on or its request has ended. Half of the
// bytes are for the first 4 KiB of a body alone, so that large bodies do not keep
// the others from being read. A body that gets none is not read any further before
// its turn: over HTTP/1 its client's leave is noticed then. It is safe for
// concurrent use.
type ReadAhead struct{ most, held, stopped atomic.Int64 }

// NewReadAhead returns a ReadAhead of so many bytes. With 0 no body is read ahead.
func NewReadAhead(bytes int64) *ReadAhead {
	r := &ReadAhead{}
	r.Resize(bytes)
	return r
}

// Resize makes it so many bytes. What is kept already stays.
func (r *ReadAhead) Resize(bytes int64) { r.most.Store(max(bytes, 0)) }

// Held returns how many bytes are kept now.
func (r *ReadAhead) Held() int64 { return r.held.Load() }

// Stopped returns how many bodies were not read any further, as there was no room.
func (r *ReadAhead) Stopped() int64 { return r.stopped.Load() }

// take takes n bytes, for a body's first chunk or a further one. It reports whether
// there were as many.
func (r *ReadAhead) take(n int64, first bool) bool {
	most := r.most.Load()
	if !first {
		most /= 2
	}
	if r.held.Add(n) > most {
		r.held.Add(-n)
		r.stopped.Add(1)
		return false
	}
	return true
}

func (r *ReadAhead) giveBack(n int64) { r.held.Add(-n) }
