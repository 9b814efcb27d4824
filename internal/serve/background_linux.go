// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"
	goruntime "runtime"
	"syscall"
)

// nicer is how much less priority the thread of a reload has: about a third of a
// processor that others want whole. With much less, locks that it holds might be held
// for long.
const nicer = 5

// inBackground calls f on a thread of its own that has less priority, so that the kernel
// runs the threads of requests first where processors are scarce.
func inBackground(log *slog.Logger, f func() error) error {
	done := make(chan error)
	go func() {
		goruntime.LockOSThread() // for good: the thread ends here, as its priority cannot be raised again
		now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, 0, min(20-now+nicer, 19)) // the system call returns 20 - nice
		}
		if err != nil {
			log.Warn("requests may wait while a configuration is read", slog.Any("error", err))
		}
		done <- f()
	}()
	return <-done
}
