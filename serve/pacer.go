// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	goruntime "runtime"
	"time"
)

// turn is how long a change of the configuration computes before requests have
// its processor: they would otherwise wait until it is preempted, 10 ms at a
// time. A shorter one costs more: each wakes a thread to look for work.
const turn = 500 * time.Microsecond

// pacer returns a function that, called again and again by one goroutine, lets
// others run whenever a turn is over.
func pacer() func() {
	began := time.Now()
	return func() {
		if time.Since(began) >= turn {
			goruntime.Gosched()
			began = time.Now()
		}
	}
}

// aside calls f, which computes for long, on a thread of its own and with less
// priority: so the kernel lets the threads of requests go first, where processors
// are scarce. It returns f's error, and why f had the priority of others if so.
func aside(f func() error) (failed, equal error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread() // for good: the thread, whose priority cannot be raised again, ends here
		equal = yieldPriority()
		failed = f()
	}()
	<-done
	return failed, equal
}
