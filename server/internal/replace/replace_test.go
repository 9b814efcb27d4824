// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replace_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/server/internal/replace"
)

// names returns what is in a folder.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// TestFile: a file is there whole, for its owner, or as it was before; nothing
// is left beside it.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	failed := errors.New("half of it")
	for _, c := range []struct {
		write func(io.Writer) error
		err   error
		want  string
	}{
		{writing("one"), nil, "one"},
		{writing("two"), nil, "two"},
		{func(w io.Writer) error { return errors.Join(failed, writing("thr")(w)) }, failed, "two"},
	} {
		if err := replace.File(path, c.write); !errors.Is(err, c.err) {
			t.Errorf("got %v, want %v", err, c.err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("got %v, %v", info.Mode(), err)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 1 {
			t.Errorf("in the folder: %v", got)
		}
	}
	if err := replace.File(filepath.Join(path, "below"), writing("")); err == nil {
		t.Error("below a file: got no error")
	}
	if err := replace.Try(filepath.Join(path, "below")); err == nil {
		t.Error("below a file: got no error")
	}
}

// TestTry: of what is beside a file, what was left by one that died goes, and
// nothing else.
func TestTry(t *testing.T) {
	folder := t.TempDir()
	stay := []string{"file", "file.1.tmp.bak", "file.1x.tmp", "file..tmp", "file.tmp", "file.1", "other.1.tmp", "xfile.1.tmp"}
	for _, name := range append([]string{"file.1.tmp", "file.234567.tmp"}, stay...) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "file.5.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other.1.tmp", filepath.Join(folder, "file.6.tmp")); err != nil {
		t.Fatal(err)
	}
	stay = append(stay, "file.5.tmp", "file.6.tmp")
	path := filepath.Join(folder, "file")
	if err := replace.Try(path); err != nil {
		t.Fatal(err)
	}
	slices.Sort(stay)
	if got := names(t, folder); !slices.Equal(got, stay) {
		t.Errorf("got %v, want %v", got, stay)
	}
}
