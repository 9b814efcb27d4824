// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"log/slog"
	goruntime "runtime"
	"syscall"
	"testing"
)

// TestInBackground: a reload runs with less priority than its caller, which keeps its own.
func TestInBackground(t *testing.T) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	priority := func() (tid, nice int) {
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return syscall.Gettid(), 20 - p
	}
	tid, before := priority()
	want := errors.New("failed")
	failed := inBackground(slog.New(slog.DiscardHandler), func() error {
		other, during := priority()
		if other == tid {
			t.Error("it runs on the caller's thread")
		}
		if want := min(before+nicer, 19); during != want {
			t.Errorf("its niceness is %d, want %d, as the caller's is %d", during, want, before)
		}
		return want
	})
	if !errors.Is(failed, want) {
		t.Errorf("got %v, want %v", failed, want)
	}
	if _, after := priority(); after != before {
		t.Errorf("afterwards the caller's niceness is %d, want %d", after, before)
	}
}
