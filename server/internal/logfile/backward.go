// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logfile

import (
	"bytes"
	"errors"
	"io"
)

const (
	// chunk is the size of a read, in bytes.
	chunk = 64 << 10
	// longest is the longest line that is read back, in bytes.
	longest = 64 << 10
)

// Backward calls f with each line of the last most bytes of a file of the given size, the last
// line first and without its end, until f returns false. A line longer than 64 KiB is nil.
// Empty lines are left out, as are an unfinished last line and a line that begins before those
// bytes. It reports whether there may be more lines that f was not called with. A file that
// becomes shorter meanwhile ends the iteration early.
func Backward(r io.ReaderAt, size, most int64, f func(line []byte) bool) (more bool, err error) {
	buffer := make([]byte, chunk+longest)
	rest := 0     // bytes in front, of a line whose beginning has not been read
	skip := true  // the line is unfinished
	long := false // the line is too long, and rest is empty
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
