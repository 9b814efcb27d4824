// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/server/audit"
)

// TestAppends: every entry is a line of its own, also of many at once and after
// those of before.
func TestAppends(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	const writers, each = 4, 25
	for range 2 {
		log, err := audit.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				for range each {
					if err := log.Write(audit.Entry{Action: "reset", Author: "eve", Reason: "a\nb", Detail: map[string]any{"key": "x"}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		for range 2 {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := log.Write(audit.Entry{Action: "late"}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after the end: got %v", err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: others can read keys", info.Mode(), err)
	}
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var e audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Time.IsZero() || e.Reason != "a\nb" {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
	}
	if want := 2 * writers * each; n != want {
		t.Errorf("%d lines, want %d", n, want)
	}
}
