// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/replace"
)

// restoreState reads the store's state from a file and reports whether there was one. It fails
// if the file cannot be written later, as the stop is too late to find out.
func restoreState(store *memstore.Store, path string) (found bool, err error) {
	f, _, err := regular.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("state: %w", err)
	default:
		err := store.Restore(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("state %q: cannot be restored: %w; move the file away to start with every key unused", path, err)
		}
		found = true
	}
	if err := replace.Try(path); err != nil {
		return found, fmt.Errorf("state %q: its folder cannot be written to: %w", path, err)
	}
	return found, nil
}

// saveState writes the store's state to a file, atomically. Only its owner can read it: it
// holds the store's secret.
func saveState(store *memstore.Store, path string) error {
	if err := replace.File(path, store.Snapshot); err != nil {
		return fmt.Errorf("state %q: cannot be written: %w", path, err)
	}
	return nil
}
