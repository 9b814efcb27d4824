// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// Share returns the limit under which [FailLocal] decides on one of several nodes. In any
// window all nodes together admit at most as much of a key as l, plus at most one
// unit a node if the Quota or Burst is below the number of nodes N. At once
// they admit at most N units or as much as l, whichever is more. For a calendar, both hold
// in each of its windows. Fewer nodes than 1 count as 1, more than 65,536 as 65,536.
//
//	of                          share
//	bucket, continuous refill   Quota per N windows, Burst/N, at least 1; a window longer than
//	                            MaxWindow is shortened, and its Quota with it
//	  interval, aligned refill  Quota/N per window, Burst/N; where Quota or Burst is below N,
//	                            the smaller of them per N windows, refilled continuously
//	  leaky bucket              DelayAfter/N, at least 1, too
//	  warm-up                   the same length
//	window, log, counter,       Quota/N per window, with the same options; where the Quota is
//	histogram                   below N, a sliding log of 1 per ⌈N windows/Quota⌉
//	calendar                    Quota/N, at least 1, per window of the calendar
//	debt                        Debt/N; without any the next does not wait
//	initial deficit             the share of a node has 1/N of what l has at the start
//	credit                      none: an add does not reach a node
//	count-denied, pre-filled    the same
//	block                       the limit itself: nodes deny more often, and a key is blocked
//	                            only if as many denials would block it on a single node
//
// Divisions round down. A cost may fit l and be too large for every share.
func (l Limit) Share(nodes int) Limit {
	l = l.Filled()
	n := int64(min(max(nodes, 1), bounds.MaxNodes))
	o, _ := optionsOf(l.Algorithm)
	if n == 1 || o.Kind == compiled.Block || l.Validate() != nil {
		return l
	}
	s, deficit := l, o.InitialDeficit
	s.Debt, o.InitialDeficit = l.Debt/n, 0
	o.NextWaits = o.NextWaits && s.Debt > 0
	switch {
	case o.Kind.Bucket():
		shareBucket(&s, &o, n)
	case l.Quota >= n || o.Calendar != NoCalendar:
		s.Quota = max(l.Quota/n, 1)
	default:
		deficit, o = 0, options{Kind: compiled.SlidingLog}
		s.Quota, s.Debt = 1, min(s.Debt, bounds.MaxLogQuota-1)
		s.Window, _ = stretch(1, l.Quota, l.Window.Microseconds(), n)
	}
	switch full := l.idleUnits(); {
	case deficit == 0:
	case full < n:
		o.InitialDeficit = deficit / full
	default:
		o.InitialDeficit = s.idleUnits() - (full-deficit)/n
	}
	if s = s.as(&o); s.Validate() != nil { // its refill takes slightly too long
		o.NextWaits, o.InitialDeficit, o.DelayAfter = false, 0, min(o.DelayAfter, 1)
		s.Debt, s.Burst = 0, min(s.Burst, 1)
	}
	return s.as(&o)
}

// as returns l counted by the algorithm of o, filled in.
func (l Limit) as(o *options) Limit {
	l.Algorithm = o.assemble()
	return l.Filled()
}

// shareBucket makes a bucket with options o the share of one of n nodes. It leaves the Debt
// and the InitialDeficit alone.
func shareBucket(l *Limit, o *options, n int64) {
	quota, burst := l.Quota, l.Burst
	l.Burst, o.DelayAfter = max(burst/n, 1), min(o.DelayAfter, max(o.DelayAfter/n, 1))
	o.Credit, o.CreditFor = 0, 0
	if o.Refill != Continuous {
		if l.Quota = quota / n; min(quota, burst) >= n && l.as(o).Validate() == nil {
			return
		}
		o.Refill, quota = Continuous, min(quota, burst) // no refill gives more than is missing
	}
	l.Window, l.Quota = stretch(quota, quota, l.Window.Microseconds(), n)
}

// stretch returns the window in which units refill on one of n nodes, if quota units
// refill on all of them per window, in µs. It lowers units if the window would be longer
// than MaxWindow, and returns them too.
func stretch(units, quota, window, n int64) (time.Duration, int64) {
	const most = int64(MaxWindow / time.Microsecond)
	if window*n > most {
		fit, _ := span.MulDiv(most, quota, window*n)
		units = min(units, max(fit, 1))
	}
	long, rest := span.MulDiv(units, window*n, quota)
	if rest > 0 {
		long++
	}
	return time.Duration(min(long, most)) * time.Microsecond, units
}
