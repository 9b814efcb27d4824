// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/server/internal/replace"
)

// TestFileBesideTry: of several processes that start at once none fails. One that
// replaces the file meanwhile does so, or says that it has not; the file is whole.
func TestFileBesideTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := replace.Try(path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	want := strings.Repeat("text", 10_000)
	written := 0
	for range 50 {
		err := replace.File(path, writing(want))
		if err == nil {
			written++
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if got, err := os.ReadFile(path); written > 0 && (err != nil || string(got) != want) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	close(stop)
	others.Wait()
	if err := replace.File(path, writing(want)); err != nil {
		t.Error(err)
	}
}

// TestFilesAtOnce: of several that replace a file at once, the last one stays, whole.
func TestFilesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var all sync.WaitGroup
	for _, letter := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for range 10 {
				if err := replace.File(path, writing(strings.Repeat(letter, 10_000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(path)
	if err != nil || len(got) != 10_000 || strings.Trim(string(got), string(got[:1])) != "" {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("in the folder: %v", got)
	}
}
