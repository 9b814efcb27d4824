// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package replace

import (
	"errors"
	"os"
)

const renamesOpen = false

// lock locks nothing here, so that nothing is taken for left.
func lock(*os.File) error { return errors.ErrUnsupported }

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
