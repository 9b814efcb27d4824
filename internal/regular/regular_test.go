// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package regular_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/regular"
)

// TestOpen: a file is opened, through a link too; what is none is named, and
// nothing waits for it.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("file"), []byte("text"), 0o600))
	must(os.Symlink("file", at("link")))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	must(os.Symlink("pipe", at("link-to-pipe")))
	for _, c := range []struct{ path, want string }{
		{at("file"), ""},
		{at("link"), ""},
		{at("pipe"), "pipe is a pipe; write the path of a regular file"},
		{at("link-to-pipe"), "is a pipe"},
		{dir, "is a directory"},
		{os.DevNull, "is a device"},
	} {
		f, info, err := regular.Open(c.path)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.path, err, c.want)
			}
			continue
		}
		must(err)
		text, err := io.ReadAll(f)
		must(errors.Join(err, f.Close()))
		if string(text) != "text" || info.Size() != 4 {
			t.Errorf("%s: got %q, %d bytes", c.path, text, info.Size())
		}
	}
	if _, _, err := regular.Open(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}
