// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package logfile writes lines to a file, a named pipe or a stream of the process, from its
// own goroutine: a caller never waits for a disk or a reader.
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
	// DefaultBuffer is the default of Options.Buffer.
	DefaultBuffer = 4 << 20
	// gather is how long lines are gathered for one write, unless half of the buffer is full
	// earlier.
	gather = 50 * time.Millisecond
	// retry is the pause after a failure, and the longest wait for a reader.
	retry = time.Second
	// lastTry bounds the wait for a reader of the last lines.
	lastTry = retry / 4
	// closeTimeout bounds Close.
	closeTimeout = 2 * retry
	// warnEvery is the least time between two warnings about failed writes.
	warnEvery = time.Minute
	// kept is the largest buffer kept for later lines.
	kept = 1 << 20
)

// Counts are the numbers of lines of a log, over all its files. They may be read at any time.
type Counts struct{ Written, Dropped atomic.Uint64 }

// Options are the options of a [File]. Counts and Log are required.
type Options struct {
	Counts *Counts
	// Log receives failures to write, at most one a minute, and their end.
	Log *slog.Logger
	// Name names the file in the log: "decision log".
	Name string
	// Buffer is the most bytes that may wait to be written. Lines without room are dropped.
	// Zero means DefaultBuffer.
	Buffer int

	retry time.Duration // for tests; 0: retry
}

// File receives the lines of a log. It is safe for concurrent use. Close ends its goroutine.
type File struct {
	path string
	o    Options

	hurry   chan struct{} // there are lines, or half of the buffer is full
	again   chan struct{} // the path is to be reopened
	closing chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	lines  []byte // waiting
	spare  []byte // the previous buffer
	wait   int    // bytes being written
	closed bool

	file *os.File // used by the goroutine; nil while it cannot be opened
	torn bool     // the last line of file is incomplete

	fault  atomic.Pointer[error] // the last failure to write; nil after a success
	warned time.Time
}

// Stream returns the path of "stdout" or "stderr", and other paths unchanged.
func Stream(path string) string {
	if path == "stdout" || path == "stderr" {
		return "/dev/" + path
	}
	return path
}

// Open returns a File that appends to path: a file, made for its owner alone if there is none,
// a named pipe, a device such as /dev/null, or "stdout" or "stderr". It does not block: a pipe
// without a reader is retried while lines are dropped.
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

// Fault returns why lines cannot be written now, or nil.
func (f *File) Fault() error {
	if err := f.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Path returns the path passed to Open.
func (f *File) Path() string { return f.path }

// Write queues a line with its end, or drops it. It does not block, and does not keep line.
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

// Reopen reopens the path once the queued lines are written, for a file that was moved or
// removed. If that fails the previous file stays.
func (f *File) Reopen() { signal(f.again) }

// Close writes the queued lines and ends the goroutine, within two seconds. Later lines, and
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
	case <-time.After(closeTimeout): // a pipe made blocking by other processes, or a disk that hangs
		return fmt.Errorf("%s %s: the last lines could not be written", f.o.Name, f.path)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is pending already
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

// pause waits for d, or less if reason is signalled. It reports false if the File is being
// closed.
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

// take returns the queued lines.
func (f *File) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines, f.spare, f.wait = f.spare[:0], nil, len(lines)
	return lines
}

// wrote subtracts n written bytes of those taken, and keeps the buffer when all are written.
func (f *File) wrote(n int, buffer []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait -= n; f.wait == 0 && cap(buffer) <= kept {
		f.spare = buffer[:0]
	}
}

// flush writes the queued lines. It retries until that is done, the path is to be reopened, or
// the File is closed.
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

// last makes a last attempt to write rest.
func (f *File) last(rest []byte) (written int) {
	n, err := f.write(rest, lastTry)
	if err != nil {
		f.failed(err)
	}
	return n
}

// finish is the last flush.
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

// drop counts the lines after the first n bytes as dropped.
func (f *File) drop(rest []byte, n int) {
	f.o.Counts.Dropped.Add(uint64(bytes.Count(rest[n:], newline)))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait = 0
}

var newline = []byte("\n")

// write writes as much of rest as it can, and returns the bytes that are done with. It waits
// for a reader for at most wait.
func (f *File) write(rest []byte, wait time.Duration) (n int, err error) {
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
		if n = f.skip(rest); n > 0 {
			return n, nil
		}
	}
	_ = f.file.SetWriteDeadline(time.Now().Add(wait)) // an error means that the file never blocks
	n, err = f.file.Write(rest)
	f.o.Counts.Written.Add(uint64(bytes.Count(rest[:n], newline)))
	if n > 0 {
		f.torn = rest[n-1] != '\n'
	}
	if errors.Is(err, syscall.EPIPE) && !f.stays() {
		_ = f.file.Close() // its reader has left, and the next one opens another pipe
		f.file = nil
	}
	return n, err
}

// stays reports whether the open file is still at its path. An open pipe keeps its bytes for
// the next reader, which then gets whole lines.
func (f *File) stays() bool {
	info, err := f.file.Stat()
	now, err2 := os.Stat(f.path)
	return err == nil && err2 == nil && os.SameFile(info, now)
}
