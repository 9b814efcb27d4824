// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

const (
	clockCheck = time.Second          // between reads of the wall clock
	clockDrift = 5 * time.Millisecond // a wall clock ahead by more is followed
)

// clock returns the µs since 1970 for one read of the monotonic clock. The monotonic
// clock ignores changes of the wall clock and stops while some systems sleep, so
// the two are compared about every second. The clock follows a wall clock that is ahead
// and ignores one that is behind, so it never goes back.
type clock struct {
	custom func() time.Time // Options.Now, or nil
	base   time.Time        // carries the monotonic reading
	wall   atomic.Int64     // µs since 1970 at base, by the wall clock as it is set now
	check  atomic.Int64     // ns after base of the next comparison; 0 for a custom clock
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

// compare reads the wall clock and follows it if it is ahead.
func (c *clock) compare(elapsed time.Duration) int64 {
	if due := c.check.Load(); int64(elapsed) >= due && c.check.CompareAndSwap(due, int64(elapsed+clockCheck)) { // one of many callers compares
		t := time.Now()
		// t holds both readings: with an older monotonic one, a pause of this goroutine
		// would look like drift.
		wall, since := c.wall.Load(), int64(t.Sub(c.base)/time.Microsecond)
		if t.UnixMicro()-wall-since > clockDrift.Microseconds() {
			c.wall.Store(t.UnixMicro() - since)
			return max(t.UnixMicro(), 0)
		}
	}
	return max(c.wall.Load()+int64(elapsed/time.Microsecond), 0)
}
