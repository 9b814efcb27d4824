// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logfile

import (
	"log/slog"
	"syscall"
	"testing"
)

// TestStandardStreams: standard streams are written to also if they are sockets, which have no
// path.
func TestStandardStreams(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	before, err := syscall.Dup(syscall.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(pair[0], syscall.Stderr, 0); err != nil {
		t.Fatal(err)
	}
	f, err := Open("stderr", Options{Counts: new(Counts), Log: slog.New(slog.DiscardHandler), Name: "test log"})
	if dup := syscall.Dup3(before, syscall.Stderr, 0); dup != nil || err != nil {
		t.Fatal(dup, err)
	}
	f.Write([]byte("line 1\n"))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	got := make([]byte, 100)
	n, err := syscall.Read(pair[1], got)
	if string(got[:max(n, 0)]) != "line 1\n" {
		t.Errorf("read %q, %v", got[:max(n, 0)], err)
	}
	for _, fd := range []int{pair[0], pair[1], before} {
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
	}
}
