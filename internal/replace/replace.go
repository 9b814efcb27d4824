// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package replace writes files that are there whole or as they were before,
// whatever happens meanwhile. What is being written is in a file beside, named
// FILE.NUMBER.tmp and locked: one that nobody has locked was left by a process
// that died, and is removed when another one starts.
package replace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File puts what write writes in the place of a file, or returns an error and
// leaves it as it was. Only if its folder cannot be synced then, which is an
// error, too, the file is a new one, which may not last through a power cut. Only
// its owner may read it. Two that replace a file at the same time do not disturb
// each other: the last one stays.
func File(path string, write func(io.Writer) error) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil && !renamesOpen {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path) // while it is locked, where that is possible
	}
	if err != nil {
		return errors.Join(err, discard(f))
	}
	_ = f.Close() // what was written is on the disk
	return syncFolder(filepath.Dir(path))
}

// Try finds out whether a file can be replaced later, by a file beside that it
// removes. It also removes what processes have left that died while they
// replaced the file.
func Try(path string) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	if err := discard(f); err != nil {
		return err
	}
	clean(path)
	return nil
}

// discard closes and removes a file, unless another process has done that once
// it was closed.
func discard(f *os.File) error {
	err, gone := f.Close(), os.Remove(f.Name())
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	if errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	return errors.Join(err, gone)
}

// errLocked is what lock returns of a file that somebody else has locked.
var errLocked = errors.New("the file is locked")

// create makes a file beside path and locks it. Before it is locked another
// process may take it for one that was left, lock it and remove it: then it makes
// another one, some times at most.
func create(path string) (*os.File, error) {
	const most = 100
	for range most {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
		if err != nil {
			return nil, err
		}
		if !errors.Is(lock(f), errLocked) {
			if _, err := os.Stat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
				return f, nil
			}
		}
		if err := discard(f); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s.*.tmp: other processes have removed %d of these before they were locked", path, most)
}

// clean removes the files beside path that nobody has locked. One that cannot be
// looked at or removed stays: it is not worth failing for.
func clean(path string) {
	folder := filepath.Dir(path)
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, file := range files {
		if ours(file, filepath.Base(path)) {
			removeUnlocked(filepath.Join(folder, file.Name()))
		}
	}
}

// ours reports whether a file is named as create names those beside another.
func ours(file fs.DirEntry, name string) bool {
	number, ok := strings.CutPrefix(file.Name(), name+".")
	number, ok2 := strings.CutSuffix(number, ".tmp")
	return ok && ok2 && number != "" && strings.Trim(number, "0123456789") == "" && file.Type().IsRegular()
}

func removeUnlocked(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // its name has been looked at
	if err != nil {
		return
	}
	if lock(f) == nil {
		_ = os.Remove(path) // see clean
	}
	_ = f.Close() // nothing was written
}
