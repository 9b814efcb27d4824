// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that stands where the test puts it. It is safe for
// concurrent use.
type Clock struct{ nanos atomic.Int64 }

// NewClock returns a clock that stands at a moment like any other, always the
// same one: no window begins there.
func NewClock() *Clock { return ClockAt(time.UnixMicro(1_790_000_000_123_456)) }

// ClockAt returns a clock that stands at a time.
func ClockAt(now time.Time) *Clock {
	c := &Clock{}
	c.Set(now)
	return c
}

// Now returns the time, as a store's option Now does.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()) }

// Micros returns the time in µs, in which states and receipts count.
func (c *Clock) Micros() int64 { return c.Now().UnixMicro() }

// Advance puts the clock on by d.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Set puts the clock to a time.
func (c *Clock) Set(to time.Time) { c.nanos.Store(to.UnixNano()) }
