// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package overrides

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOverridesPipe: a pipe instead of the file does not block the start.
func TestOverridesPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "overrides.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe); err == nil || !strings.Contains(err.Error(), pipe+" is a pipe") {
		t.Errorf("got %v; want it to say that it is a pipe", err)
	}
}
