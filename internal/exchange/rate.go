// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import "time"

// bodyGrace is how long a body may be waited for, whatever its rate.
const bodyGrace = 10 * time.Second

// rate is how long a client may still let a body be waited for. Every byte makes it
// longer, up to a bound. Time in which nobody reads does not count: then it is not
// the client that is slow.
type rate struct {
	least int64         // bytes a second; 0: any
	left  time.Duration // of waiting
	began time.Time     // of the Read that goes on
	short bool          // that Read may wait for less long than any other body's
	slow  func()        // is informed when the body is cut off
}

// bound returns how long a Read that begins now may wait, d at most.
func (r *rate) bound(now time.Time, d time.Duration) time.Duration {
	if r.least == 0 {
		return d
	}
	r.began, r.short = now, r.left < d
	return min(r.left, d)
}

// came counts n bytes that a Read has returned. What is left is d at most, and the
// grace if that is longer.
func (r *rate) came(now time.Time, n int, d time.Duration) {
	if r.least == 0 {
		return
	}
	earned := time.Duration(n) * (time.Second / time.Duration(r.least))
	r.left = max(min(r.left-now.Sub(r.began)+earned, max(d, bodyGrace)), 0)
}
