// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

const (
	clockCheck = time.Second          // of elapsed time between looks at the wall clock
	clockDrift = 5 * time.Millisecond // the wall clock is followed if it is ahead by more than that
)

// clock gives the µs since 1970 at the price of one read of the monotonic
// clock. That runs on when the wall clock is set, and stands still while some
// systems sleep, so the two are compared about every second. A wall clock that is ahead is
// followed; one that is behind is not, so this clock never goes back.
type clock struct {
	custom func() time.Time // Options.Now, or nil
	base   time.Time        // carries the monotonic reading
	wall   atomic.Int64     // µs since 1970 at base, by the wall clock as it is set now
	check  atomic.Int64     // elapsed since base at which to compare next, in ns; 0 of a custom clock
}

func (c *clock) init(custom func() time.Time) {
	if c.custom = custom; custom == nil {
		c.base = time.Now()
		c.wall.Store(c.base.UnixMicro())
		c.check.Store(int64(clockCheck))
	}
}

// now returns the µs since 1970, never negative. Safe for concurrent use.
func (c *clock) now() int64 {
	if c.custom != nil {
		return min(max(c.custom().UnixMicro(), 0), bounds.Latest)
	}
	elapsed := time.Since(c.base)
	if int64(elapsed) >= c.check.Load() {
		return c.compare(elapsed)
	}
	return max(c.wall.Load()+int64(elapsed/time.Microsecond), 0)
}

// compare looks at the wall clock and follows it if it is ahead.
func (c *clock) compare(elapsed time.Duration) int64 {
	if due := c.check.Load(); int64(elapsed) >= due && c.check.CompareAndSwap(due, int64(elapsed+clockCheck)) { // one of many callers compares
		t := time.Now()
		// The monotonic reading of the same call, or a pause of this goroutine
		// since the last one would look like drift.
		wall, since := c.wall.Load(), int64(t.Sub(c.base)/time.Microsecond)
		if t.UnixMicro()-wall-since > clockDrift.Microseconds() {
			c.wall.Store(t.UnixMicro() - since)
			return max(t.UnixMicro(), 0)
		}
	}
	return max(c.wall.Load()+int64(elapsed/time.Microsecond), 0)
}
