// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"syscall"
)

// nicer is how much less priority it gets: about a third of a processor that
// others want whole. With much less, locks that it holds might be held for long.
const nicer = 5

// yieldPriority lowers the priority of the calling thread.
func yieldPriority() error {
	const self = 0
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, self)
	if err != nil {
		return fmt.Errorf("get the priority of a thread: %w", err)
	}
	nice := 20 - now // the system call's answer is never negative
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, self, min(nice+nicer, 19)); err != nil {
		return fmt.Errorf("set the priority of a thread: %w", err)
	}
	return nil
}
