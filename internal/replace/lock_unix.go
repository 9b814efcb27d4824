// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package replace

import (
	"os"
	"syscall"
)

// lock locks a file until it is closed, or its process ends however it does. It
// reports whether nobody else had locked it. Where files cannot be locked it is
// false.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
