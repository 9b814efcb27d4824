// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package logfile writes lines to a file, a named pipe or a stream of the process,
// from a goroutine of its own: a writer of a line never waits for a disk or a reader.
package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// DefaultBuffer is how many bytes of lines may wait to be written.
	DefaultBuffer = 4 << 20
	// gather is how long lines are gathered before they are written together, unless
	// half of the buffer is full before.
	gather = 50 * time.Millisecond
	// retry is how long is waited after a failure, and for a reader that does not read,
	// before the next try.
	retry = time.Second
	// lastTry is how long a reader may keep the last lines waiting.
	lastTry = retry / 4
	// closeTimeout is how long Close waits in all.
	closeTimeout = 2 * retry
	// warnEvery is how often the log says that nothing can be written.
	warnEvery = time.Minute
	// kept is how large a buffer is kept for the lines to come.
	kept = 1 << 20
)

// Counts are the lines of a log, over all files that it has had. They may be read
// at any time.
type Counts struct{ Written, Dropped atomic.Uint64 }

// Options say how a [File] writes. Counts and Log are required.
type Options struct {
	Counts *Counts
	// Log gets why nothing can be written, at most once a minute, and when it can
	// be again.
	Log *slog.Logger
	// Name is what the log calls the file: "decision log".
	Name string
	// Buffer is how many bytes may wait to be written. Lines for which there is no
	// room are dropped. Zero means DefaultBuffer.
	Buffer int

	retry time.Duration // of tests; 0: retry
}

// File is where the lines of a log go. It is safe for concurrent use. Close ends its
// goroutine.
type File struct {
	path string
	o    Options

	hurry   chan struct{} // there are lines, or half of the buffer is full
	again   chan struct{} // it is to be opened again
	closing chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	lines  []byte // that wait
	spare  []byte // the buffer before
	wait   int    // bytes that are being written
	closed bool

	file *os.File // of the goroutine; nil while it cannot be opened
	torn bool     // the last line of file was written in part

	fault  atomic.Pointer[error] // why nothing could be written, last; nil: it was
	warned time.Time
}

// Stream returns what "stdout" and "stderr" stand for, and other paths as they are.
func Stream(path string) string {
	if path == "stdout" || path == "stderr" {
		return "/dev/" + path
	}
	return path
}

// Open returns a File that appends to path: a file, made for its owner alone if there
// is none, a named pipe, a device such as /dev/null, or "stdout" or "stderr". It waits
// for nobody: a pipe without a reader is tried again while lines are dropped.
func Open(path string, o Options) (*File, error) {
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	if o.retry == 0 {
		o.retry = retry
	}
	f := &File{
		path: path, o: o,
		hurry: make(chan struct{}, 1), again: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := f.open(); err != nil && !errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	go f.run()
	return f, nil
}

// Fault returns why lines cannot be written now, nil if they can.
func (f *File) Fault() error {
	if err := f.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Path returns the path that was opened.
func (f *File) Path() string { return f.path }

// Write takes a line with its end, or drops it. It does not wait, and does not keep
// line.
func (f *File) Write(line []byte) {
	f.mu.Lock()
	held := len(f.lines) + f.wait
	if f.closed || held+len(line) > f.o.Buffer {
		f.mu.Unlock()
		f.o.Counts.Dropped.Add(1)
		return
	}
	first := len(f.lines) == 0
	f.lines = append(f.lines, line...)
	f.mu.Unlock()
	if half := f.o.Buffer / 2; first || held < half && held+len(line) >= half {
		signal(f.hurry)
	}
}

// Reopen has the path opened again when what was taken before is written: for a file
// that was moved away or removed. If that fails the file before is kept.
func (f *File) Reopen() { signal(f.again) }

// Close writes what there is, within a second, and ends. Lines that come later, and
// those that cannot be written, are dropped.
func (f *File) Close() error {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if !was {
		close(f.closing)
	}
	select {
	case <-f.ended:
		return nil
	case <-time.After(closeTimeout): // a pipe that others made block, or a disk that hangs
		return fmt.Errorf("%s %s: what is left cannot be written", f.o.Name, f.path)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}

func (f *File) run() {
	defer close(f.ended)
	for {
		select {
		case <-f.hurry:
			if f.pause(gather, f.hurry) {
				f.flush()
			}
		case <-f.again:
			f.flush()
			f.reopen()
		case <-f.closing:
			f.finish()
			return
		}
	}
}

// pause waits for d, or less if there is a reason to go on. It reports whether the
// File is not to be closed.
func (f *File) pause(d time.Duration, reason <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-reason:
	case <-f.closing:
		return false
	}
	return true
}

// take returns the lines that wait.
func (f *File) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.spare, f.wait = f.spare[:0], nil, len(lines)
	return lines
}

// wrote says that so many bytes of what was taken do not wait any more, and gives the
// buffer back when none does.
func (f *File) wrote(n int, buffer []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait -= n; f.wait == 0 && cap(buffer) <= kept {
		f.spare = buffer[:0]
	}
}

// flush writes what waits, and goes on trying until that is done, the path is to be
// opened again, or the File closed.
func (f *File) flush() {
	buffer := f.take()
	for rest := buffer; len(rest) > 0; {
		n, err := f.write(rest, f.o.retry)
		rest = rest[n:]
		f.wrote(n, buffer)
		if err == nil {
			f.recovered()
			continue
		}
		f.failed(err)
		if !f.pause(f.o.retry, f.again) {
			f.drop(rest, f.last(rest))
			return
		}
		if n := f.renew(rest); n > 0 {
			rest = rest[n:]
			f.wrote(n, buffer)
		}
	}
}

// last writes what it can before the File is closed.
func (f *File) last(rest []byte) (written int) {
	n, err := f.write(rest, lastTry)
	if err != nil {
		f.failed(err)
	}
	return n
}

// finish is flush for the last time.
func (f *File) finish() {
	for {
		rest := f.take()
		if len(rest) == 0 {
			break
		}
		f.drop(rest, f.last(rest))
	}
	if f.file != nil {
		if err := f.file.Close(); err != nil {
			f.failed(err)
		}
	}
}

// drop counts the lines that are not written: those behind the first n bytes.
func (f *File) drop(rest []byte, n int) {
	f.o.Counts.Dropped.Add(uint64(bytes.Count(rest[n:], newline)))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait = 0
}

var newline = []byte("\n")

// write writes what it can, and returns how much is done with. A reader may keep it
// waiting for so long.
func (f *File) write(rest []byte, wait time.Duration) (n int, err error) {
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
		if n = f.skip(rest); n > 0 {
			return n, nil
		}
	}
	_ = f.file.SetWriteDeadline(time.Now().Add(wait)) // an error means that it never waits for a reader
	n, err = f.file.Write(rest)
	f.o.Counts.Written.Add(uint64(bytes.Count(rest[:n], newline)))
	if n > 0 {
		f.torn = rest[n-1] != '\n'
	}
	if errors.Is(err, syscall.EPIPE) && !f.stays() {
		_ = f.file.Close() // its reader has left, and the next will not come to this pipe
		f.file = nil
	}
	return n, err
}

// stays reports whether the file that is open is at its path. While a pipe is open it keeps
// what was written for the next reader, which then gets whole lines.
func (f *File) stays() bool {
	info, err := f.file.Stat()
	now, err2 := os.Stat(f.path)
	return err == nil && err2 == nil && os.SameFile(info, now)
}
