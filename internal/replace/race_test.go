// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replace_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/replace"
)

// TestFileBesideTry: a process that removes what was left does not take away what is
// about to be written.
func TestFileBesideTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var trying sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		trying.Go(func() {
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
	for range 300 {
		if err := replace.File(path, writing("text")); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	trying.Wait()
}
