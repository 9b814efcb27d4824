// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// Clocked is a server whose wall clock the test sets: libfaketime shows it the time.
type Clocked struct {
	*Server
	file string // has the time by which its clock is ahead
}

// StartClocked starts a server whose clock is ahead of the machine's. ahead may be negative.
// args are as those of [Start].
func StartClocked(t testing.TB, b Binary, ahead time.Duration, args ...string) *Clocked {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(libraries) == 0 {
		t.Fatal("libfaketime is not there; install it with: apt-get install faketime")
	}
	s := &Clocked{Server: newServer(t, b, testkit.FreePort(t), args)}
	s.file = filepath.Join(s.Dir, "clock")
	s.SetAhead(t, ahead)
	s.env = []string{
		// Before jemalloc is libc, as that asks for the time while libfaketime starts.
		"LD_PRELOAD=" + libraries[0] + ":libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + s.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1",
	}
	s.Run(t)
	return s
}

// SetAhead sets the server's clock.
func (s *Clocked) SetAhead(t testing.TB, ahead time.Duration) {
	t.Helper()
	next := s.file + ".next" // replaced at once: the server reads it at any time
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", ahead.Seconds()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.file); err != nil {
		t.Fatal(err)
	}
}
