// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package regular

import (
	"os"
	"syscall"
)

// appendGiven opens a file descriptor passed to the process. Its standard streams may be
// sockets, or pipes of another user, which cannot be opened by path.
func appendGiven(path string) (*os.File, error) {
	var stream int
	switch path {
	case "/dev/stdout":
		stream = syscall.Stdout
	case "/dev/stderr":
		stream = syscall.Stderr
	default:
		return openGiven(path)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(stream)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: path, Err: err}
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), path), nil
}
