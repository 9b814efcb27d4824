// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clock is the clock of code that waits: the machine's, or one that a caller moves.
package clock

import (
	"math/rand/v2"
	"time"
)

// Clock is a source of time. A nil field means the machine's.
type Clock struct {
	Now func() time.Time
	// AfterFunc calls f in a goroutine of its own after d, and returns a function that stops
	// the timer, as [time.Timer.Stop] does.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Filled returns c without nil fields.
func (c Clock) Filled() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.AfterFunc == nil {
		c.AfterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	return c
}

// After returns a channel that is closed after d, unless stop is called before.
func (c Clock) After(d time.Duration) (over <-chan struct{}, stop func() bool) {
	done := make(chan struct{})
	return done, c.AfterFunc(d, func() { close(done) })
}

// Jitter returns a random time between half of d and d, so that several waiters do not
// continue at the same time.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // it guards no secret
}
