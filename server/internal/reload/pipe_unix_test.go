// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package reload_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestPipe: a pipe in place of a file, or of a named one, whose opening would block, is a
// fault, and delays nothing.
func TestPipe(t *testing.T) {
	watch(t, func(w *watched) {
		pipe := func(name string) {
			t.Helper()
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(name, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		testkit.WriteFile(t, w.names, "key")
		pass()
		pipe(w.names)
		pass()
		if len(w.applied) != 2 { // Load returns the fault of the key
			t.Errorf("a pipe in place of a key: applied %v", w.applied)
		}
		pipe(w.file)
		pass()
		if _, failure := w.Status(); failure == nil || !strings.Contains(failure.Error(), "is a pipe") {
			t.Errorf("failure %v", failure)
		}
		if err := w.Reload(); err == nil || !strings.Contains(err.Error(), "is a pipe") {
			t.Errorf("by hand: got %v", err)
		}
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		w.write(t, text(22))
		pass()
		if _, failure := w.Status(); failure != nil || w.applied[len(w.applied)-1] != 22 {
			t.Errorf("a file again: failure %v, applied %v", failure, w.applied)
		}
	})
}
