// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package replace replaces files atomically: at any time a file has its old or its new
// content, whole. New content is written to a temporary file beside it, named FILE.NUMBER.tmp.
// If a process is killed meanwhile, the next start removes that file.
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

// File replaces the content of a file by the output of write. After an error the old content
// stays, with one exception: if the folder cannot be synced, the content is new, and may not
// survive a power cut. Only the file's owner may read it. Of several concurrent calls the last
// one wins.
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

// Try reports whether a file can be replaced later, by making and removing a temporary file.
// Before that it removes the temporary files of this file. If another process replaces the
// file at that instant, File returns an error there, and the old content stays.
func Try(path string) error {
	folder := filepath.Dir(path)
	files, _ := os.ReadDir(folder) // after an error old temporary files stay
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

// beside makes a temporary file beside path.
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

// syncFolder makes a rename survive a power cut, if the folder can be synced.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path) //nolint:gosec // the caller chooses the file
	if errors.Is(err, fs.ErrPermission) {
		return nil // the folder can be written to but not read
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
