// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import "time"

// bodyGrace is how long a body may keep the reader waiting at any rate.
const bodyGrace = 10 * time.Second

// rate bounds how long a body may still keep the reader waiting. Every byte extends it, up to
// a bound. Time without a Read does not count, as the client is not the slow side then.
type rate struct {
	least int64         // bytes a second; 0: no bound
	left  time.Duration // of waiting
	began time.Time     // start of the current Read
	short bool          // this Read may wait for less than the stall's bound
	slow  func()        // called when the body is cut off
}

// bound returns how long a Read that begins now may wait, at most d.
func (r *rate) bound(now time.Time, d time.Duration) time.Duration {
	if r.least == 0 {
		return d
	}
	r.began, r.short = now, r.left < d
	return min(r.left, d)
}

// came counts the n bytes of a Read. The remaining time is bounded by d, or by bodyGrace if
// that is longer.
func (r *rate) came(now time.Time, n int, d time.Duration) {
	if r.least == 0 {
		return
	}
	earned := time.Duration(n) * (time.Second / time.Duration(r.least))
	r.left = max(min(r.left-now.Sub(r.began)+earned, max(d, bodyGrace)), 0)
}
