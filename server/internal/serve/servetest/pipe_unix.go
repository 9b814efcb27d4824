// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servetest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Pipe replaces a file, if it is there, by a pipe, whose opening blocks until somebody writes.
func Pipe(t testing.TB, name string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".next")
	if err := errors.Join(syscall.Mkfifo(next, 0o600), os.Rename(next, name)); err != nil {
		t.Fatal(err)
	}
}
