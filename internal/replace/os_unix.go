// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package replace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// renamesOpen is whether a file can be renamed while it is open, and so while it
// is locked.
const renamesOpen = true

// lock locks a file until it is closed, or its process ends however it does. The
// error is errLocked if somebody else has locked it, and another one where files
// cannot be locked.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// syncFolder makes a rename last through a power cut, where a folder can be
// synced.
func syncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // the caller chooses the file
	if errors.Is(err, fs.ErrPermission) {
		return nil // one that may be written to and not read
	}
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
