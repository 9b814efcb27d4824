// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/memstore"
)

// restoreState reads the store's state from a file. It reports whether there
// was one. It also finds out whether the file could be written later, since at
// the stop it is too late to say so.
func restoreState(store *memstore.Store, path string) (found bool, err error) {
	f, _, err := regular.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("--state: %w", err)
	default:
		err := store.Restore(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("--state %q: cannot be restored: %w; move the file away to start with every key unused", path, err)
		}
		found = true
	}
	try, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return found, fmt.Errorf("--state %q: its folder cannot be written to: %w", path, err)
	}
	if err := errors.Join(try.Close(), os.Remove(try.Name())); err != nil {
		return found, fmt.Errorf("--state %q: its folder cannot be written to: %w", path, err)
	}
	return found, nil
}

// saveState writes the store's state to a file that is there whole or as it
// was before. Only its owner can read it: it holds the store's secret.
func saveState(store *memstore.Store, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	err = store.Snapshot(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path) //nolint:gosec // as above
	}
	if err != nil {
		return fmt.Errorf("--state %q: cannot be written: %w", path, errors.Join(err, os.Remove(f.Name()))) //nolint:gosec // as above
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename last through a power cut.
func syncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("--state: folder %q: %w", path, err)
	}
	return nil
}
