// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package regular_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/regular"
)

// TestOpen: a regular file is opened, through a link, too; anything else is named in the
// error, and nothing blocks.
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
		{at("pipe"), "pipe is a pipe; use the path of a regular file"},
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

// TestAppend: a file is made or appended to; anything else is named in the error, and nothing
// blocks.
func TestAppend(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f, err := regular.Append(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString("text")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "texttext" {
		t.Errorf("got %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	for path, want := range map[string]string{
		pipe: "is a pipe", dir: "is a directory", os.DevNull: "is a device", filepath.Join(dir, "none", "file"): "no such file",
	} {
		if _, err := regular.Append(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// TestAppendGiven: a file descriptor passed to the process is written to, of any kind.
func TestAppendGiven(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f, err := regular.Append(fmt.Sprintf("/dev/fd/%d", in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("text")
	if err := errors.Join(err, f.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err := errors.Join(err, out.Close()); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestOpenGiven: a file descriptor passed to the process is read, of any kind; a pipe at a
// path is still an error.
func TestOpenGiven(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.WriteString("text")
	if err := errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := regular.OpenGiven(fmt.Sprintf("/dev/fd/%d", out.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close(), out.Close()); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := regular.OpenGiven(pipe); err == nil || !strings.Contains(err.Error(), "is a pipe") {
		t.Errorf("got %v", err)
	}
}
