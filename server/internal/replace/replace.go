// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package replace writes files that are there whole or as they were before,
// whatever happens meanwhile. What is being written is in a file beside, named
// FILE.NUMBER.tmp. What a process leaves there that is killed meanwhile is removed
// at the next start.
package replace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// File puts what write writes in the place of a file, or returns an error and
// leaves it as it was. Only if its folder cannot be synced then, which is an
// error, too, the file is a new one, which may not last through a power cut. Only
// its owner may read it. Two that replace a file at the same time do not disturb
// each other: the last one stays.
func File(path string, write func(io.Writer) error) error {
	f, err := beside(path)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, remove(f))
	}
	return syncFolder(filepath.Dir(path))
}

// Try finds out whether a file can be replaced later, by a file beside that it
// removes. Before that it removes all that are beside for this file: if another process
// replaces the file at that instant, File returns an error there, and the file stays as
// it was.
func Try(path string) error {
	folder := filepath.Dir(path)
	files, _ := os.ReadDir(folder) // if that fails, what was left stays
	for _, file := range files {
		number, ok := strings.CutPrefix(file.Name(), filepath.Base(path)+".")
		number, ok2 := strings.CutSuffix(number, ".tmp")
		if ok && ok2 && number != "" && strings.Trim(number, "0123456789") == "" && file.Type().IsRegular() {
			_ = os.Remove(filepath.Join(folder, file.Name())) // as above
		}
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), remove(f))
}

// beside makes a file beside path.
func beside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
}

// remove removes a file, unless another process has done that.
func remove(f *os.File) error {
	err := os.Remove(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncFolder makes a rename last through a power cut, where a folder can be
// synced.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
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
