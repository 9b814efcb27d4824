// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
)

// renew reopens the path after a failure if that can help, and returns how many bytes of rest
// cannot be written there.
func (f *File) renew(rest []byte) (skipped int) {
	if f.file == nil {
		return 0 // write opens it
	}
	if info, err := f.file.Stat(); err != nil || !info.Mode().IsRegular() || f.stays() {
		return 0
	}
	if !f.reopen() {
		return 0
	}
	return f.skip(rest)
}

// skip returns the length of the rest of a line whose beginning is in another file.
func (f *File) skip(rest []byte) int {
	if !f.torn {
		return 0
	}
	f.torn = false
	f.o.Counts.Dropped.Add(1)
	return bytes.IndexByte(rest, '\n') + 1
}

// failed records and logs a failure to write.
func (f *File) failed(err error) {
	f.fault.Store(&err)
	if time.Since(f.warned) < warnEvery {
		return
	}
	f.warned = time.Now()
	f.o.Log.Warn("a log cannot be written; its lines are dropped when its buffer is full", f.attrs(slog.Any("error", err))...)
}

// recovered logs that writing works again.
func (f *File) recovered() {
	if f.fault.Swap(nil) != nil {
		f.warned = time.Time{}
		f.o.Log.Info("a log is written again", f.attrs(slog.Uint64("dropped", f.o.Counts.Dropped.Load()))...)
	}
}

func (f *File) attrs(last slog.Attr) []any {
	return []any{slog.String("log", f.o.Name), slog.String("file", f.path), last}
}

// reopen replaces the open file by a new one at the path, and reports whether it has.
func (f *File) reopen() bool {
	old := f.file
	if err := f.open(); err != nil {
		f.file = old
		f.o.Log.Warn("a log cannot be opened again; the previous file stays open", f.attrs(slog.Any("error", err))...)
		return false
	}
	if old != nil {
		if err := old.Close(); err != nil {
			f.failed(err)
		}
	}
	return true
}

// open opens the path. An incomplete last line, of a crashed process or a full disk, is ended.
func (f *File) open() error {
	file, err := regular.AppendStream(Stream(f.path))
	if err != nil {
		return err
	}
	if err := endTorn(file, Stream(f.path)); err != nil {
		return errors.Join(err, file.Close())
	}
	f.file = file
	return nil
}

func endTorn(file *os.File, path string) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || regular.Given(path) {
		return err
	}
	torn, err := regular.EndsTorn(path, info.Size())
	if errors.Is(err, fs.ErrPermission) {
		return nil // the file may only be appended to
	}
	if err != nil || !torn {
		return err
	}
	_, err = file.Write(newline)
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

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
