// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package regular opens regular files, whose paths may name other kinds of files by the time
// they are opened. In particular, it never blocks on opening a pipe.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Open opens a regular file for reading and follows symbolic links. It does not block.
// Any other kind of file at the path is an error, and is not opened.
func Open(path string) (f *os.File, info fs.FileInfo, err error) {
	if info, err = os.Stat(path); err != nil {
		return nil, nil, err
	}
	if err := check(path, info); err != nil {
		return nil, nil, err
	}
	// The path may name something else by now.
	if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil { //nolint:gosec // the caller chooses the file
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of a regular file, up to most bytes of it.
func Read(path string, most int64) (data []byte, info fs.FileInfo, err error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, most))
	return data, info, errors.Join(err, f.Close())
}

// OpenGiven is [Open] for a file named on the command line and read once. It also opens a file
// descriptor passed to the process, such as /dev/stdin, or /dev/fd/63 of a shell's <(command).
// Reading one may block.
func OpenGiven(path string) (f *os.File, err error) {
	if Given(path) {
		return os.Open(path) //nolint:gosec // as above
	}
	f, _, err = Open(path)
	return f, err
}

// ReadGiven returns the content of a file that OpenGiven opens, up to most bytes of it.
func ReadGiven(path string, most int64) (data []byte, err error) {
	f, err := OpenGiven(path)
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, most))
	return data, errors.Join(err, f.Close())
}

// Given reports whether a path names a file descriptor passed to the process.
func Given(path string) bool {
	switch path {
	case "/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	default:
		return strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
	}
}

// Append opens a regular file for appending, or a file descriptor passed to the process, such
// as /dev/stdout. A missing file is made, for its owner alone. Like Open it does not block.
func Append(path string) (f *os.File, err error) { return appendTo(path, check) }

// AppendStream is Append for streams: it also opens a named pipe, which is an error while it
// has no reader, and a device such as /dev/null.
func AppendStream(path string) (f *os.File, err error) { return appendTo(path, CheckStream) }

func appendTo(path string, check func(string, fs.FileInfo) error) (f *os.File, err error) {
	if Given(path) {
		return appendGiven(path)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = check(path, info)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | syscall.O_NONBLOCK
	if f, err = os.OpenFile(path, flags, 0o600); err != nil { //nolint:gosec // as above
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// CheckStream returns the reason why AppendStream refuses the file at a path, or nil.
func CheckStream(path string, info fs.FileInfo) error {
	const device = fs.ModeDevice | fs.ModeCharDevice
	if m := info.Mode(); m&fs.ModeNamedPipe != 0 || m&device == device {
		return nil
	}
	return check(path, info)
}

// openGiven opens a file descriptor passed to the process by its path.
func openGiven(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0) //nolint:gosec // as above
}

func check(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is %s; use the path of a regular file", path, kind(info.Mode()))
}

// kind names the kind of a file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	default:
		return "no regular file"
	}
}

// EndsTorn reports whether the last line of a file of a size is incomplete, because the process
// that wrote it has died.
func EndsTorn(path string, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	f, err := os.Open(path) //nolint:gosec // the caller has checked it
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return last[0] != '\n', err
}
