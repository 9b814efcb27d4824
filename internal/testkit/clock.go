// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that only the test sets. It is safe for concurrent use.
type Clock struct{ nanos atomic.Int64 }

// NewClock returns a clock at a fixed time, at which no window begins.
func NewClock() *Clock { return ClockAt(time.UnixMicro(1_790_000_000_123_456)) }

// ClockAt returns a clock at the time now.
func ClockAt(now time.Time) *Clock {
	c := &Clock{}
	c.Set(now)
	return c
}

// Now returns the time, as a store's option Now does.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()) }

// Micros returns the time in µs since 1970, the unit of states and receipts.
func (c *Clock) Micros() int64 { return c.Now().UnixMicro() }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Set sets the clock to a time.
func (c *Clock) Set(to time.Time) { c.nanos.Store(to.UnixNano()) }
