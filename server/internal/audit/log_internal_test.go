// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestAuditAppends: every entry is a line of its own, also with many writers and after
// a restart.
func TestAuditAppends(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	const writers, each = 4, 25
	for range 2 {
		log, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				for range each {
					if err := log.Write(Entry{Action: "reset", Author: "eve", Reason: "a\nb", Detail: map[string]any{"key": "x"}}); err != nil {
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
		if err := log.Write(Entry{Action: "late"}); !errors.Is(err, os.ErrClosed) {
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
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Time.IsZero() || e.Reason != "a\nb" {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
	}
	if want := 2 * writers * each; n != want {
		t.Errorf("%d lines, want %d", n, want)
	}
}

// TestAuditGiven: a pipe that the process got open takes entries.
func TestAuditGiven(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := Open(fmt.Sprintf("/dev/fd/%d", in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Write(Entry{Action: "reset"}), log.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err := errors.Join(err, out.Close()); err != nil || !strings.Contains(string(text), `"action":"reset"`) {
		t.Errorf("got %q, %v", text, err)
	}
}

// full is a disk with room for some bytes.
type full struct {
	room    int
	written []byte
}

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	f.written = append(f.written, p[:n]...)
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// wantActions checks a log whose first line is torn, and whose other lines have these
// actions.
func wantActions(t *testing.T, log []byte, actions ...string) {
	t.Helper()
	lines := strings.Split(string(log), "\n")
	if len(lines) != 2+len(actions) {
		t.Fatalf("lines %q", lines)
	}
	for i, want := range actions {
		var e Entry
		if err := json.Unmarshal([]byte(lines[i+1]), &e); err != nil || e.Action != want {
			t.Errorf("line %q: got %q, %v, want %q", lines[i+1], e.Action, err, want)
		}
	}
}

// TestAuditTorn: a line that did not fit is an error, and leaves the next one whole.
func TestAuditTorn(t *testing.T) {
	disk := &full{room: 20}
	log := New(disk)
	for range 2 {
		if err := log.Write(Entry{Action: "lost"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full disk: got %v, want %v", err, syscall.ENOSPC)
		}
	}
	disk.room = 1000
	for _, action := range []string{"first", "second"} {
		if err := log.Write(Entry{Action: action}); err != nil {
			t.Error(err)
		}
	}
	wantActions(t, disk.written, "first", "second")
}

// TestAuditTornBefore: a torn line of a process that died leaves the next one whole, too.
func TestAuditTornBefore(t *testing.T) {
	path := testkit.TempFile(t, "audit", `{"action":"los`)
	for range 2 {
		log, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(log.Write(Entry{Action: "kept"}), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
	wantActions(t, testkit.ReadFile(t, path), "kept", "kept")
}

// TestAuditAtHand: the entries kept in memory are bounded in number and in bytes.
func TestAuditAtHand(t *testing.T) {
	var b strings.Builder
	l := New(&b)
	write := func(n int, reason string) {
		for range n {
			if err := l.Write(Entry{Action: "reset", Author: "ops", Reason: reason}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(mostEntries+10, "r")
	if n := len(l.last()); n != mostEntries {
		t.Errorf("%d entries, want %d", n, mostEntries)
	}
	write(9, strings.Repeat("x", mostEntryBytes/4))
	if n := len(l.last()); n != 3 {
		t.Errorf("%d large entries, want 3", n)
	}
}
