// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package override_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/server/override"
)

// TestPipe: a pipe in the place of the file does not hold up the start.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "overrides.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := override.Open(pipe); err == nil || !strings.Contains(err.Error(), pipe+" is a pipe") {
		t.Errorf("got %v; want it to say that it is a pipe", err)
	}
}
