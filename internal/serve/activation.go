// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	goruntime "runtime"
	"runtime/metrics"
	"time"
)

// What keeps requests going while a file of 10,000 rules is activated, on two
// shared cores under load: half of them are answered within 0.4 ms and 99 in 100
// within 85 ms. Without all of it, in the same minutes, it was 2 ms and 240 ms;
// with the thread of less priority alone 60 ms and 730 ms, where all of it took
// 0.4 ms and 250 ms. See bench/results/gateway-2026-11-22T141204Z-01cf34094511.md
// and gateway-2026-11-22T141503Z-01cf34094511.md.

// turn is how long a change of the configuration computes before requests have
// its processor, and glance how long before they have it if any waits to be run at two
// glances: they would otherwise wait until it is preempted, 10 ms at a time. A thread that
// the kernel wakes beside it may wait a turn, too: with 2 ms the p99 of requests was
// 2.4 times that without a change, with 0.5 ms 1.75 times. One that waits
// at one glance has mostly just been woken, and another processor runs it. To let others
// run costs 10 µs and the kernel's patience, as it wakes a thread, to look whether any waits
// 0.2 µs. What has come over the network and has been read by no processor yet is not
// seen to wait.
const (
	turn   = 500 * time.Microsecond
	glance = 100 * time.Microsecond
)

// newYield returns a function that, called again and again by one goroutine, lets
// others run whenever a turn is over, or one of them waits.
func newYield() func() {
	runnable := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	waits := func() bool {
		metrics.Read(runnable)
		return runnable[0].Value.Uint64() > 0
	}
	var t turns
	t.begin(time.Now())
	return func() {
		if t.over(time.Now(), waits) {
			goruntime.Gosched()
			t.begin(time.Now())
		}
	}
}

// turns are those of a change of the configuration.
type turns struct {
	began, looked time.Time
	waited        bool // at the last glance
}

func (t *turns) begin(now time.Time) { *t = turns{began: now, looked: now} }

// over reports whether others are to run now. It asks waits, at each glance, whether any
// waits to.
func (t *turns) over(now time.Time, waits func() bool) bool {
	if now.Sub(t.looked) < glance {
		return false
	}
	before := t.waited
	t.looked, t.waited = now, waits()
	return t.waited && before || now.Sub(t.began) >= turn
}

// inBackground calls f, which computes for long, on a thread of its own and with less
// priority: so the kernel lets the threads of requests go first, where processors
// are scarce. It returns f's error, and why f had the priority of others if so.
func inBackground(f func() error) (failed, equal error) {
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
