// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package replace writes files that are there whole or as they were before,
// whatever happens meanwhile. What is being written is in a file beside, named
// FILE.NUMBER.tmp and locked: one that nobody has locked was left by a process
// that died, and is removed when another one starts.
package replace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File puts what write writes in the place of a file, or returns an error and
// leaves it as it was. Only its owner may read it. Two that replace a file at
// the same time do not disturb each other: the last one stays.
func File(path string, write func(io.Writer) error) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), path) // while it is locked
	}
	if err != nil {
		return errors.Join(err, discard(f))
	}
	return f.Close()
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
	if errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	return errors.Join(err, gone)
}

// create makes a file beside path and locks it.
func create(path string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
		if err != nil {
			return nil, err
		}
		lock(f)
		// Another process may have taken it for one that was left, before it was
		// locked.
		if _, err := os.Stat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
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
	if lock(f) {
		_ = os.Remove(path) // see clean
	}
	_ = f.Close() // nothing was written
}
