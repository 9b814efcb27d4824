// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/bounds"
)

const (
	// mostKept is the most of a body that is read while its request is delayed.
	mostKept = 64 << 10 // bytes
	// chunkSize is the size by which the kept part of a body grows.
	chunkSize = 4 << 10 // bytes
)

// ReadAhead bounds the bytes of bodies that are kept while their requests are delayed, for all
// requests together. A body takes chunks of 4 KiB, 64 KiB at most, and gives each back when it
// has been read or its request has ended. Half of the bytes are reserved for first chunks, so
// that large bodies do not keep others from being read. A body without room is not read
// further during the delay: a client of HTTP/1 that hangs up is then noticed only afterwards.
// The zero value keeps 64 MiB at most. ReadAhead is safe for concurrent use.
type ReadAhead struct {
	more          atomic.Int64 // than the default, negative for less
	held, stopped atomic.Int64
}

// Resize sets the largest number of bytes; with 0 no body is read ahead. Bytes that are kept
// already stay.
func (r *ReadAhead) Resize(bytes int64) { r.more.Store(max(bytes, 0) - bounds.DefaultReadAhead) }

// Held returns the number of bytes that are kept now, and how many bodies were not read
// further because there was no room.
func (r *ReadAhead) Held() (bytes, stopped int64) { return r.held.Load(), r.stopped.Load() }

// take takes n bytes for the first or a later chunk of a body. It reports whether there was
// room.
func (r *ReadAhead) take(n int64, first bool) bool {
	most := bounds.DefaultReadAhead + r.more.Load()
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
