// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"
	goruntime "runtime"
	"syscall"
)

// nicer is added to the nice value of a reload's thread, which gets about a third of a busy
// processor then. With a larger value, the thread might hold locks for too long.
const nicer = 5

// inBackground calls f on a thread of its own with less priority, so that the kernel runs the
// threads of requests first where processors are scarce.
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
