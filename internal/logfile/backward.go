// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logfile

import (
	"bytes"
	"errors"
	"io"
)

const (
	// chunk is how much of a file is read at once.
	chunk = 64 << 10
	// longest is how long a line may be that is read back.
	longest = 64 << 10
)

// Backward calls f with each line of the last most bytes of a file that has so many,
// the last line first and without its end, until f returns false. A line that is
// longer than 64 KiB is nil, and an empty one is left out. So is what has no end yet,
// and what begins before those bytes. It reports whether there may be more lines, which
// f was not reported. A file that becomes shorter meanwhile ends it early.
func Backward(r io.ReaderAt, size, most int64, f func(line []byte) bool) (more bool, err error) {
	buffer := make([]byte, chunk+longest)
	rest := 0     // bytes of a line whose beginning is not read yet, in front
	skip := true  // it has no end
	long := false // it is too long, and rest is none of it
	limit := max(0, size-most)
	for at := size; at > limit; {
		n := int(min(chunk, at-limit))
		copy(buffer[n:], buffer[:rest])
		got, err := r.ReadAt(buffer[:n], at-int64(n))
		if got < n {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return true, err
		}
		at -= int64(n)
		data := buffer[:n+rest]
		for i := bytes.LastIndexByte(data, '\n'); i >= 0; i = bytes.LastIndexByte(data, '\n') {
			line := data[i+1:]
			data = data[:i]
			if long = long || len(line) > longest; long {
				line = nil
			}
			if !skip && (long || len(line) > 0) && !f(line) {
				return true, nil
			}
			skip, long = false, false
		}
		if rest = len(data); rest > longest {
			rest, long = 0, true
		}
		copy(buffer, data[:rest])
	}
	if limit > 0 {
		return true, nil
	}
	if !skip && long {
		f(nil)
	} else if !skip && rest > 0 {
		f(buffer[:rest])
	}
	return false, nil
}
