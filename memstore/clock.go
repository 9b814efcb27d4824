// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"time"
)

const (
	clockCheck = time.Second          // of elapsed time between looks at the wall clock
	clockDrift = 5 * time.Millisecond // more than that and the wall clock is followed
)

// clock gives the µs since 1970 at the price of one read of the monotonic
// clock. That runs on when the wall clock is set, and stands still while some
// systems sleep, so the two are compared about every second.
type clock struct {
	custom func() time.Time // Options.Now, or nil
	anchor atomic.Pointer[anchor]
	check  atomic.Int64 // elapsed since the anchor at which to compare next, in ns
}

// anchor is one instant on both clocks.
type anchor struct {
	base time.Time // carries the monotonic reading
	wall int64     // µs since 1970
}

func newClock(custom func() time.Time) *clock {
	c := &clock{custom: custom}
	if custom == nil {
		c.reanchor(time.Now())
	}
	return c
}

func (c *clock) reanchor(t time.Time) {
	c.check.Store(int64(clockCheck))
	c.anchor.Store(&anchor{base: t, wall: t.UnixMicro()})
}

// now returns the µs since 1970, never negative. Safe for concurrent use.
func (c *clock) now() int64 {
	if c.custom != nil {
		return max(c.custom().UnixMicro(), 0)
	}
	a := c.anchor.Load()
	elapsed := time.Since(a.base)
	if due := c.check.Load(); int64(elapsed) >= due {
		return c.compare(a, elapsed, due)
	}
	return max(a.wall+int64(elapsed/time.Microsecond), 0)
}

// compare looks at the wall clock and follows it if it has drifted.
func (c *clock) compare(a *anchor, elapsed time.Duration, due int64) int64 {
	now := a.wall + int64(elapsed/time.Microsecond)
	if c.check.CompareAndSwap(due, int64(elapsed+clockCheck)) { // one of many callers compares
		t := time.Now()
		// The monotonic reading of the same call, or a pause of this goroutine
		// since the last one would look like drift.
		expected := a.wall + int64(t.Sub(a.base)/time.Microsecond)
		if drift := t.UnixMicro() - expected; drift > clockDrift.Microseconds() || drift < -clockDrift.Microseconds() {
			c.reanchor(t)
			now = t.UnixMicro()
		}
	}
	return max(now, 0)
}
